"""Plant bugs in the decisions and the store verbs, one at a time, and see which of them no test notices.

    make mutants                                        everything below, and the survivors at the end
    python -m tools.mutation hits FOLDER                run the suite once and record which test enters which function
    python -m tools.mutation run FOLDER --seed 7        plant about 400 mutations and test each
    python -m tools.mutation run FOLDER --only RESULTS  test again those that survived
    python -m tools.mutation list --seed 7              only show what would be planted

Each mutation is made in a copy of the tree. It is killed when a test that enters the mutated function fails, and
otherwise by the simulator. What survives needs a test, or a written reason.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from tools.mutation.choose import Hits, choose, found_again, stages
from tools.mutation.operators import Mutation
from tools.mutation.place import ROOT

BUDGET_S = 45.0  # of recorded test time for each mutation, before the simulator is asked
HANGING_S = 400
OK, NO_SUCH_TEST, NO_TESTS = 0, 4, 5  # exit codes of pytest
SIMULATED = "tests/simulation/test_histories.py"
CHUNKS = 4  # of 40 simulated histories each
NOT_RECORDED = (
    *("tests/chaos", "tests/kill", "tests/disk", "tests/fuzz"),
    *(
        "tests/eval/test_compression_baseline.py",
        "tests/memory/test_private_notes.py",
        "tests/security/test_canaries.py",
    ),
    *("tests/sessions/test_compression_incident.py", "tests/sessions/test_hundred_agents.py"),
    "tests/sessions/test_two_agents_one_room.py",
)
PARTS = ("src", "tests", "tools", "docs", "changes", "requirements", "pyproject.toml", "README.md", "Makefile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one planted mutation: `by` names the test that failed, or is empty for a survivor."""

    name: str
    path: str
    line: int
    operator: str
    scope: str
    before: str
    after: str
    by: str
    asked: int
    seconds: float


class Copy:
    """A copy of the tree in which one file at a time is mutated."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        for part in PARTS:
            origin = ROOT / part
            if origin.is_dir():
                shutil.copytree(origin, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            elif origin.is_file():
                shutil.copy2(origin, folder / part)

    def judge(self, mutation: Mutation, asked: list[list[str]], chunks: int) -> Fate:
        began = time.monotonic()
        file = self._root / mutation.path
        sound = file.read_bytes()
        try:
            self._write(file, mutation.applied(sound))
            by = next(filter(None, map(self._first_failure, [*asked, *_simulated(chunks)])), "")
        finally:
            self._write(file, sound)
        return Fate(
            name=mutation.name,
            path=mutation.path,
            line=mutation.line,
            operator=mutation.operator,
            scope=mutation.scope,
            before=mutation.before,
            after=mutation.after,
            by=by,
            asked=sum(map(len, asked)),
            seconds=round(time.monotonic() - began, 1),
        )

    def _write(self, file: Path, content: bytes) -> None:
        """Byte code is known by its source's size and second, which a mutation may leave as they were."""
        file.write_bytes(content)
        for old in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            old.unlink()

    def _first_failure(self, tests: list[str]) -> str:
        """The first of the tests that fails; empty when all pass."""
        asked = self._root / "asked.txt"
        asked.write_text("\n".join(tests) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-m", "soak or not soak", f"@{asked}"]  # most histories are left to the soak
        env = {**os.environ, "PYTHONPATH": f"{self._root / 'src'}{os.pathsep}{self._root}"}
        try:
            done = subprocess.run(
                command, cwd=self._root, env=env, capture_output=True, text=True, timeout=HANGING_S, check=False
            )
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode in {OK, NO_SUCH_TEST, NO_TESTS}:
            return ""  # tests that did not run detect nothing
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failed[0].split(" - ")[0] if failed else f"pytest exits with {done.returncode}: {done.stdout[-200:]}"


def _simulated(chunks: int) -> list[list[str]]:
    return [[f"{SIMULATED}::test_no_history_breaks_an_invariant[{10_240 + 360 * n}]"] for n in range(chunks)]


def record(folder: Path) -> int:
    """Run the suite with the plugin; a failing test is no matter here."""
    folder.mkdir(parents=True, exist_ok=True)
    ignored = [f"--ignore={part}" for part in (*NOT_RECORDED, "tests/simulation")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutation.hits", "-n", "2", "--dist", "worksteal"]
    env = {**os.environ, "HOLDFAST_HITS": str(folder)}
    return subprocess.run([*command, *ignored], cwd=ROOT, env=env, check=False).returncode


def run(hits: Hits, mutations: list[Mutation], results: Path, *, jobs: int, budget_s: float, chunks: int) -> list[Fate]:
    fates: list[Fate] = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            (Path(scratch) / str(number)).mkdir()
            copies.put(Copy(Path(scratch) / str(number)))

        def judge(mutation: Mutation) -> Fate:
            copy = copies.get()
            try:
                return copy.judge(mutation, stages(hits.tests_of(mutation), hits.seconds, budget_s), chunks)
            finally:
                copies.put(copy)

        for fate in pool.map(judge, mutations):
            fates.append(fate)
            print(_line(fate), flush=True)
            results.write_text(json.dumps([asdict(one) for one in fates], indent=1) + "\n", encoding="utf-8")
    return fates


def _line(fate: Fate) -> str:
    verdict = "killed  " if fate.by else "SURVIVED"
    return f"{verdict} {fate.seconds:6.1f} s  {fate.name}  {fate.before!r:.60} -> {fate.after!r:.60}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("hits", "run", "list"))
    parser.add_argument("folder", nargs="?", type=Path, help="where the recorded hits are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of recorded test time per mutation")
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="of 40 simulated histories, for what no test kills")
    parser.add_argument("--only", type=Path, help="results of an earlier run: test its survivors again")
    parser.add_argument("--results", type=Path, default=Path("mutation-results.json"))
    given = parser.parse_args()
    if given.only:
        lived = [one for one in json.loads(given.only.read_text()) if not one["by"]]
        known = ("path", "operator", "scope", "before", "after")
        mutations = found_again({tuple(one[field] for field in known) for one in lived})
        print(f"{len(lived)} survived before; {len(mutations)} places of the code can be mutated like that")
    else:
        mutations = choose(given.seed, given.count)
    if given.command == "list":
        for one in mutations:
            print(f"{one.name}  {one.before!r:.70} -> {one.after!r:.70}")
        return 0
    if given.folder is None:
        parser.error("name the folder of the recorded hits")
    if given.command == "hits":
        return record(given.folder)
    fates = run(
        Hits(given.folder),
        mutations,
        given.results,
        jobs=given.jobs,
        budget_s=given.budget,
        chunks=given.chunks,
    )
    survivors = [fate for fate in fates if not fate.by]
    print(f"{len(fates)} planted, {len(survivors)} survived ({100 * len(survivors) / max(1, len(fates)):.1f} %)")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
