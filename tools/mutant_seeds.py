"""Print seeds whose shortened history kills a mutant, for `short=` of the mutants in `holdfast.testing`.

    python -m tools.mutant_seeds                    every mutant that needs more than one history now
    python -m tools.mutant_seeds no_fence order     these mutants

A change of the runtime changes every history, so a known seed may no longer kill its mutant. Then the mutant is tried
on many histories before it dies, and the test suite takes minutes longer.
"""

import sys
from contextlib import closing

from holdfast.testing.campaign import MutantRun, mutant_runs
from holdfast.testing.mutants import MUTANTS


def main(names: list[str]) -> int:
    for name in names or MUTANTS:
        with closing(mutant_runs(MUTANTS[name], short=True)) as runs:
            killed = next((run for run in runs if run.seen is not None), None)
        if killed is None or names or killed.histories > 1:
            print(_line(name, killed), flush=True)
    return 0


def _line(name: str, killed: MutantRun | None) -> str:
    known = MUTANTS[name].short
    if killed is None:
        return f"{name}: survived {MUTANTS[name].budget} histories"
    return f"{name}: short={killed.seed} instead of {known}, now killed by history {killed.histories}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
