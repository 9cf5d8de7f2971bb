"""`holdfast sim`: simulate histories with everything going wrong, and see that nothing is lost."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.testing.history import Verdict

Histories = Annotated[int, typer.Option("--histories", min=1, help="How many random histories to live through.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The seed of the first one; the others count up from it.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Worker processes.", show_default="one per core")]
Mutants = Annotated[bool, typer.Option("--mutants/--no-mutants", help="Also break each guarantee on purpose.")]
Replay = Annotated[int | None, typer.Option("--replay", metavar="SEED", help="Tell the story of one history.")]

STEPS = 20  # lines of progress in a log file


def sim(  # noqa: PLR0917 - each is an option of the command line
    histories: Histories = 200,
    seed: Seed = 1,
    jobs: Jobs = None,
    mutants: Mutants = True,
    replay: Replay = None,
    json: Json = False,
) -> None:
    """Simulate crashes and see that nothing is lost.

    Each history is drawn from a seed: processes die and pause, answers are lost, models fail. Exit code 0 only when
    no invariant was broken and every mutant was seen.

    \b
    Examples:
      holdfast sim --histories 2000 --seed 7
      holdfast sim --replay 4711
      holdfast sim --histories 200 --no-mutants --json
    """
    if replay is not None:
        from holdfast.testing.story import tell

        verdict = tell(replay, print)
        raise typer.Exit(1 if verdict.violations else 0)
    from holdfast.cli.output import print_json

    report = _run(range(seed, seed + histories), jobs, mutants=mutants)
    if json:
        print_json(report)
    else:
        _print(report)
    raise typer.Exit(0 if report["ok"] else 1)


def _run(seeds: range, jobs: int | None, *, mutants: bool) -> dict[str, object]:
    from holdfast.cli.output import is_terminal
    from holdfast.testing.campaign import report_of, run_campaign
    from holdfast.testing.mutants import MUTANTS

    names = list(MUTANTS) if mutants else []
    if not is_terminal():
        steps = _Steps(len(seeds) + len(names))
        return report_of(run_campaign(seeds, jobs=jobs, mutants=names, progressed=steps.advance, found=_tell))
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("histories and mutants"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=len(seeds) + len(names))
        return report_of(
            run_campaign(
                seeds, jobs=jobs, mutants=names, progressed=lambda done: progress.advance(task, done), found=_tell
            )
        )


class _Steps:
    """Progress for a log file: one line on stderr for every twentieth part of the run."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._said = total, 0, 0

    def advance(self, done: int) -> None:
        self._done += done
        if (part := self._done * STEPS // self._total) > self._said:
            self._said = part
            print(f"{self._done} of {self._total} histories and mutants", file=sys.stderr, flush=True)


def _tell(verdict: "Verdict") -> None:
    """A broken invariant is worth knowing before the run ends, which may be hours later."""
    for what in verdict.violations:
        print(f"seed {verdict.seed} broke {what.invariant}: {what.what}", file=sys.stderr, flush=True)


def _print(report: dict[str, object]) -> None:
    from holdfast.cli.output import print_heading, print_table

    print_heading(f"{report['histories']} histories, {report['steps']} steps, digest {report['digest']}")
    crashes = report["crashes"]
    assert isinstance(crashes, dict)  # noqa: S101
    faults = {"kills": report["kills"], "pauses": report["pauses"], "stops": report["stops"], **crashes}
    print(", ".join(f"{count} {name}" for name, count in faults.items()))
    violations, mutants = report["violations"], report["mutants"]
    assert isinstance(violations, list)  # noqa: S101
    assert isinstance(mutants, list)  # noqa: S101
    for found in violations:
        print_heading(f"seed {found['seed']} (holdfast sim --replay {found['seed']})")
        for what in found["violations"]:
            print(f"  {what['invariant']}: {what['what']}")
        for part in found["plan"] or ():
            print(f"    {part}")
    print(f"{len(violations)} histories broke an invariant")
    coverage = report["coverage"]
    assert isinstance(coverage, dict)  # noqa: S101
    _print_coverage(coverage)
    if mutants:
        rows = [(one["name"], one["killed"], one["histories"], one["budget"], one["seen"]) for one in mutants]
        print_table(("MUTANT", "KILLED", "HISTORIES", "BUDGET", "SEEN AS"), rows)


def _print_coverage(coverage: dict[str, Any]) -> None:
    from holdfast.cli.output import print_heading

    verbs, loops = coverage["verbs"], coverage["loops"]
    print_heading(f"coverage over {coverage['histories']} histories")
    print(f"{verbs['percent']} % of the store's verbs ({verbs['reached']} of {verbs['known']})")
    unstruck = verbs["never_struck"]
    print(f"{verbs['reached'] - len(unstruck)} of these met a fault; not: {', '.join(unstruck) or 'none'}")
    print(f"{loops['percent']} % of the loops' lines ({loops['lines_reached']} of {loops['lines']})")
    for one in (*verbs["missing"], *loops["missing"]):
        print(f"  not reached: {one['name']} ({one['left_out_because'] or 'nothing says why'})")
