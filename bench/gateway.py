"""The gateway under load: a thousand messages a second for a minute from ten thousand chats, and what durability costs.

The load is a process of its own. The ratio is measured in alternating rounds of two servers that differ in one thing:
one keeps messages on disk, the other in a dictionary.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.serve import TOKEN

RATE, SECONDS, CHATS = 1_000, 60, 10_000
ROUNDS, ROUND_S = 5, 4
WARM_S = 20  # before the minute, at the same rate: bounded caches (SQLite's pages above all) fill
CONNECTIONS = 64


async def start(*command: str, **environment: str) -> tuple[asyncio.subprocess.Process, str]:
    """A process, and the first line it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdout=asyncio.subprocess.PIPE, env={**os.environ, **environment}
    )
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


@asynccontextmanager
async def running(*command: str, **environment: str) -> AsyncIterator[tuple[int, str]]:
    process, line = await start(*command, **environment)
    try:
        yield process.pid, line
    finally:
        process.terminate()
        await process.wait()


async def load(url: str, *, seconds: float, rate: float = 0) -> dict[str, Any]:
    arguments = (
        "--seconds",
        str(seconds),
        "--rate",
        str(rate),
        "--connections",
        str(CONNECTIONS),
        "--chats",
        str(CHATS),
    )
    process, line = await start("bench.load", url, TOKEN, *arguments)
    await process.wait()
    found: dict[str, Any] = json.loads(line)
    return found


async def durability(folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
    """Messages per second of the same accept path with and without a disk."""
    rates: dict[str, list[float]] = {"durable": [], "volatile": []}
    kept, lost = str(folder / "durable"), str(folder / "volatile")
    async with (
        running("bench.serve", kept, "durable") as (_, durable),
        running("bench.serve", lost, "volatile") as other,
    ):
        urls = {"durable": durable, "volatile": other[1]}
        for turn in range(ROUNDS + 1):
            note(f"the price of durability, round {turn} of {ROUNDS}")
            for kind, url in urls.items():
                found = await load(url, seconds=ROUND_S)
                if turn:  # the first round warms both up
                    rates[kind].append(found["accepted_per_s"])
    medians = {kind: statistics.median(found) for kind, found in rates.items()}
    return {"messages_per_s": medians, "ratio": round(medians["durable"] / medians["volatile"], 3)}


async def minute(folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
    """One process, turns included, under a steady load."""
    command = ("holdfast", "up", "--data", str(folder / "minute"), "--port", "0", "--json")
    began = time.perf_counter()
    async with running(*command, HOLDFAST_TOKEN=TOKEN) as (pid, line):
        ready_s, url = time.perf_counter() - began, json.loads(line)["url"]
        idle_mb = resident_mb(pid)
        await open_sessions(url, note)
        note(f"{WARM_S} s to warm up")
        await load(url, seconds=WARM_S, rate=RATE)
        note(f"{RATE} messages a second for {SECONDS} s")
        sizes: list[float] = []

        async def watch() -> None:
            while True:
                await asyncio.sleep(1)
                sizes.append(resident_mb(pid))

        watching = asyncio.create_task(watch())
        found = await load(url, seconds=SECONDS, rate=RATE)
        watching.cancel()
        note(f"{found['accepted_per_s']} a second, {found['latency_ms']}")
    warm, end = statistics.median(sizes[:3]), statistics.median(sizes[-3:])
    return {
        **found,
        "rate_asked": RATE,
        "chats": CHATS,
        "ready_s": round(ready_s, 2),
        "idle_rss_mb": round(idle_mb, 1),
        "rss_mb": {"warm": round(warm, 1), "end": round(end, 1)},
        "drift": round(end / warm - 1, 4),
    }


async def open_sessions(url: str, note: Callable[[str], None]) -> None:
    """Every chat says one thing and is answered, so that each has a session."""
    await load(url, seconds=CHATS / RATE, rate=RATE)
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        while waiting := unanswered((await client.get("/metrics")).text):
            note(f"{CHATS} sessions are opened: {waiting} messages wait")
            await asyncio.sleep(2)


def unanswered(metrics: str) -> int:
    lines = [line for line in metrics.splitlines() if line.startswith("holdfast_messages_waiting{")]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


async def measure_gateway(folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
    return {"durability": await durability(folder, note), "minute": await minute(folder, note)}


def gateway_goals(results: dict[str, Any]) -> list[tuple[str, bool, str]]:
    minute_, price = results["minute"], results["durability"]["ratio"]
    rate, drift, idle = minute_["accepted_per_s"], minute_["drift"], minute_["idle_rss_mb"]
    refused = sum(count for status, count in minute_["statuses"].items() if status != "202")
    latency = minute_["latency_ms"]
    said = f"{rate} a second, p50 {latency['p50']} ms, p99 {latency['p99']} ms"
    return [
        ("1,000 messages a second accepted for a minute from 10,000 chats", rate >= 0.99 * RATE, said),
        ("none of them refused", refused == 0, f"{refused} refused"),
        ("memory grows by less than 5 % meanwhile", drift < 0.05, f"{drift:.1%}"),
        ("the accept path at least half as fast as without durability", price >= 0.5, f"{price} x"),
        ("an idle gateway under 120 MB", idle < 120, f"{idle} MB"),
        ("ready within 3 s on an empty folder", minute_["ready_s"] < 3, f"{minute_['ready_s']} s"),
    ]
