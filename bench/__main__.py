"""`make bench`: measures, prints ratios and goals, and keeps the figures in bench/results/."""

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.accept import accept_path
from bench.work import Contestant, Holdfast, PlainAiosqlite

RESULTS = Path(__file__).parent / "results"
HISTORIES = (100, 1_000, 10_000)
WRITERS = (1, 64)
ROUNDS = 3
OPERATIONS = {1: 300, 64: 1_920}
SESSIONS = {1: 30, 64: 64}


async def rate(contestant: Contestant, sessions: list[str], writers: int, operations: int, offset: int) -> float:
    """Operations per second with `writers` at once; each session belongs to one writer."""
    shares = [sessions[writer::writers] for writer in range(writers)]
    each = operations // writers

    async def write(mine: list[str]) -> None:
        for position in range(each):
            await contestant.operate(mine[position % len(mine)], offset + position)

    started = time.perf_counter()
    await asyncio.gather(*(write(share) for share in shares))
    return each * writers / (time.perf_counter() - started)


async def compare(folder: Path, history: int, writers: int, note: Callable[[str], None]) -> dict[str, object]:
    """Both contestants on the same history, in alternating rounds; medians."""
    contestants: list[Contestant] = [Holdfast(), PlainAiosqlite()]
    sessions = [f"s{number}" for number in range(SESSIONS[writers])]
    for contestant in contestants:
        note(f"preparing {contestant.name}: {len(sessions)} sessions of {history} messages")
        place = folder / f"{contestant.name}-{history}-{writers}"
        place.mkdir()
        await contestant.open(place)
        for session in sessions:
            await contestant.prepare(session, history)
    rates: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    written: dict[str, list[int]] = {contestant.name: [] for contestant in contestants}
    for turn in range(ROUNDS):
        note(f"history {history}, {writers} writers, round {turn + 1} of {ROUNDS}")
        for contestant in contestants:
            before, count = written_bytes(), OPERATIONS[writers]
            rates[contestant.name].append(await rate(contestant, sessions, writers, count, turn * count))
            written[contestant.name].append((written_bytes() - before) // count)
    for contestant in contestants:
        await contestant.close()
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "history": history,
        "writers": writers,
        "turns_per_s": {name: round(value, 1) for name, value in medians.items()},
        "ratio": round(medians["holdfast"] / medians["aiosqlite"], 2),
        "bytes_written_per_turn": {name: statistics.median(found) for name, found in written.items()},
    }


def written_bytes() -> int:
    """All that this process has asked the kernel to write, checkpoints included; 0 where the kernel does not say."""
    counter = Path("/proc/self/io")
    if not counter.exists():
        return 0
    lines = dict(line.split(": ") for line in counter.read_text().splitlines())
    return int(lines["wchar"])


def timed(command: list[str], runs: int = 5) -> float:
    """The fastest of a few runs, in seconds."""
    durations = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        durations.append(time.perf_counter() - started)
    return min(durations)


def startup() -> dict[str, float]:
    bare = timed([sys.executable, "-c", "pass"])
    return {
        "import_s": round(timed([sys.executable, "-c", "import holdfast"]) - bare, 3),
        "import_all_s": round(timed([sys.executable, "-c", "import holdfast.facade"]) - bare, 3),
        "help_s": round(timed([sys.executable, "-m", "holdfast", "--help"]), 3),
    }


def goals(results: dict[str, object]) -> list[tuple[str, bool, str]]:
    """(goal, met, figure): what `make bench` promises."""
    turns: list[dict] = results["turns"]  # type: ignore[type-arg, assignment]
    start: dict[str, float] = results["startup"]  # type: ignore[assignment]
    found = {(row["history"], row["writers"]): row for row in turns}
    checks = []
    for history in HISTORIES:
        if (history, 64) in found:
            ratio = found[history, 64]["ratio"]
            checks.append((f"64 writers, {history} messages: at least 5 x aiosqlite", ratio >= 5, f"{ratio} x"))
        if (history, 1) in found:
            ratio = found[history, 1]["ratio"]
            checks.append((f"1 writer, {history} messages: not slower than aiosqlite", ratio >= 1, f"{ratio} x"))
    for writers in WRITERS:
        if (100, writers) in found and (10_000, writers) in found:
            small = found[100, writers]["turns_per_s"]["holdfast"]
            growth = round(small / found[10_000, writers]["turns_per_s"]["holdfast"], 2)
            checks.append((f"{writers} writers: cost at 10,000 within 1.2 x of 100", growth <= 1.2, f"{growth} x"))
    checks.append(("import holdfast under 0.3 s", start["import_s"] < 0.3, f"{start['import_s']} s"))
    checks.append(("holdfast --help under 0.4 s", start["help_s"] < 0.4, f"{start['help_s']} s"))
    return checks


async def measure(quick: bool, note: Callable[[str], None]) -> dict[str, object]:
    histories = HISTORIES[:1] if quick else HISTORIES
    results: dict[str, object] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "startup": startup(),
    }
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        results["turns"] = [
            await compare(Path(folder), history, writers, note) for history in histories for writers in WRITERS
        ]
        note("the full accept path")
        results["accept_path"] = [await accept_path(Path(folder), chats, note) for chats in WRITERS]
    results["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the smallest history; results are not kept")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    results = asyncio.run(measure(options.quick, lambda text: print(f"  {text}", file=sys.stderr)))
    checks = goals(results)
    results["goals"] = [{"goal": goal, "met": met, "figure": figure} for goal, met, figure in checks]
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        report(results, checks)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "core.json").write_text(json.dumps(results, indent=2) + "\n")


def report(results: dict[str, object], checks: list[tuple[str, bool, str]]) -> None:
    print(f"\n{results['machine']}; one operation = record one turn durably + read its context\n")
    print(
        f"{'history':>8} {'writers':>8} {'holdfast/s':>11} {'aiosqlite/s':>12} {'ratio':>7} "
        f"{'bytes/turn':>11} {'aiosqlite':>13}"
    )
    for row in results["turns"]:  # type: ignore[attr-defined]
        rates = row["turns_per_s"]
        print(
            f"{row['history']:>8} {row['writers']:>8} {rates['holdfast']:>11.0f} {rates['aiosqlite']:>12.0f} "
            f"{row['ratio']:>6.1f}x {row['bytes_written_per_turn']['holdfast']:>11.0f} "
            f"{row['bytes_written_per_turn']['aiosqlite']:>13.0f}"
        )
    for row in results["accept_path"]:  # type: ignore[attr-defined]
        print(f"\naccept -> turn -> reply, {row['chats']} chats: {row['messages_per_s']:.0f} messages/s")
    print()
    for goal, met, figure in checks:
        print(f"  {'met   ' if met else 'MISSED'}  {goal}: {figure}")


if __name__ == "__main__":
    main()
