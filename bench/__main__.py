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
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bench.accept import accept_path
from bench.gateway import gateway_goals, measure_gateway
from bench.memory import measure_memory, memory_goals
from bench.work import Contestant, Holdfast, PlainAiosqlite

RESULTS = Path(__file__).parent / "results"
HISTORIES = (100, 1_000, 10_000)
WRITERS = (1, 64)
ROUNDS = 5
Row: TypeAlias = dict[str, Any]
Measure: TypeAlias = Callable[[Path, Callable[[str], None]], Coroutine[Any, Any, dict[str, Any]]]
Goals: TypeAlias = Callable[[dict[str, Any]], list[tuple[str, bool, str]]]
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


@dataclass(slots=True)
class Lane:
    """One contestant on one history, and what was measured of it."""

    history: int
    contestant: Contestant
    rates: list[float] = field(default_factory=list)
    written: list[int] = field(default_factory=list)


async def compare(folder: Path, histories: Sequence[int], writers: int, note: Callable[[str], None]) -> list[Row]:
    """Both contestants on every history, in alternating rounds, so that a noisy minute hits all of them; medians."""
    sessions = [f"s{number}" for number in range(SESSIONS[writers])]
    lanes = [Lane(history, made()) for history in histories for made in (Holdfast, PlainAiosqlite)]
    for lane in lanes:
        note(f"preparing {lane.contestant.name}: {len(sessions)} sessions of {lane.history} messages")
        place = folder / f"{lane.contestant.name}-{lane.history}-{writers}"
        place.mkdir()
        await lane.contestant.open(place)
        for session in sessions:
            await lane.contestant.prepare(session, lane.history)
    for turn in range(ROUNDS):
        note(f"{writers} writers, round {turn + 1} of {ROUNDS}")
        for lane in lanes:
            before, count = written_bytes(), OPERATIONS[writers]
            lane.rates.append(await rate(lane.contestant, sessions, writers, count, turn * count))
            lane.written.append((written_bytes() - before) // count)
    for lane in lanes:
        await lane.contestant.close()
    return [row_of(history, writers, [lane for lane in lanes if lane.history == history]) for history in histories]


def row_of(history: int, writers: int, lanes: Sequence[Lane]) -> Row:
    medians = {lane.contestant.name: statistics.median(lane.rates) for lane in lanes}
    return {
        "history": history,
        "writers": writers,
        "turns_per_s": {name: round(value, 1) for name, value in medians.items()},
        "ratio": round(medians["holdfast"] / medians["aiosqlite"], 2),
        "bytes_written_per_turn": {lane.contestant.name: statistics.median(lane.written) for lane in lanes},
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
        "import_all_s": round(timed([sys.executable, "-c", "import holdfast.runtime.library"]) - bare, 3),
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
        "machine": machine(),
        "startup": startup(),
    }
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        rows = [row for writers in WRITERS for row in await compare(Path(folder), histories, writers, note)]
        results["turns"] = sorted(rows, key=lambda row: (row["history"], row["writers"]))
        note("the full accept path")
        results["accept_path"] = [await accept_path(Path(folder), chats, note) for chats in WRITERS]
    results["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return results


async def measured_by(measure: Measure, note: Callable[[str], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = await measure(Path(folder), note)
    return {"machine": machine(), **found}


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def keep(name: str, results: dict[str, Any], checks: list[tuple[str, bool, str]]) -> None:
    results["goals"] = [{"goal": goal, "met": met, "figure": figure} for goal, met, figure in checks]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=2) + "\n")


def part_main(name: str, title: str, measure: Measure, goals_of: Goals, *, as_json: bool) -> None:
    results = asyncio.run(measured_by(measure, tell))
    checks = goals_of(results)
    keep(name, results, checks)
    if as_json:
        print(json.dumps(results, indent=2))
        return
    print(f"\n{title}")
    for goal, met, figure in checks:
        print(f"  {'met   ' if met else 'MISSED'}  {goal}: {figure}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=("core", "memory", "gateway"), help="only this part")
    parser.add_argument("--quick", action="store_true", help="only the smallest history; results are not kept")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    if options.only in {None, "core"}:
        core_main(options.quick, options.json, tell)
    if options.quick:
        return
    if options.only in {None, "memory"}:
        part_main("memory", "memory beside the turns", measure_memory, memory_goals, as_json=options.json)
    if options.only in {None, "gateway"}:
        part_main("gateway", "the gateway under load", measure_gateway, gateway_goals, as_json=options.json)


def tell(text: str) -> None:
    print(f"  {text}", file=sys.stderr)


def core_main(quick: bool, as_json: bool, note: Callable[[str], None]) -> None:
    results = asyncio.run(measure(quick, note))
    checks = goals(results)
    if not quick:
        keep("core", results, checks)
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        report(results, checks)


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
