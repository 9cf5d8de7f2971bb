"""`holdfast up` under load over HTTP: accepting at a steady rate while turns run, and its size when idle."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.usage import cpu_of_tree_s, resident_kb
from bench.work import Task

TOKEN = "a-token-for-measuring-that-is-long-enough"
CONNECTIONS = 64
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Gateway:
    url: str
    pid: int
    ready_s: float

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60) as client:
            lines = (await client.get("/metrics")).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Gateway]:
    began = time.perf_counter()
    command = ("-m", "holdfast", "up", "--data", str(folder), "--port", "0", "--json")
    environment = {**os.environ, "HOLDFAST_TOKEN": TOKEN}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    try:
        yield Gateway(ready["url"], process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        await process.wait()


async def load(url: str, *, seconds: float, rate: float, chats: int) -> dict[str, Any]:
    """Run `bench.load` as a process of its own."""
    options = {"seconds": seconds, "rate": rate, "connections": CONNECTIONS, "chats": chats}
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.load", url, TOKEN, *arguments, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    found: dict[str, Any] = json.loads(printed)
    return found


async def accept(task: Task) -> dict[str, float]:
    """Latency from when a message should have left, and the turns that ended meanwhile."""
    rate, chats, seconds = task.option("rate"), task.load.conversations, task.load.seconds
    async with gateway(task.folder) as served:
        await load(served.url, seconds=chats / rate, rate=rate, chats=chats)  # opens every chat's session
        while await served.metric("holdfast_messages_waiting"):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(LOOK_S)
        await load(served.url, seconds=task.option("warm_s"), rate=rate, chats=chats)
        turns, cpu, started = (
            await served.metric("holdfast_turns_total"),
            cpu_of_tree_s(served.pid),
            time.perf_counter(),
        )
        found = await load(served.url, seconds=seconds, rate=rate, chats=chats)
        wall = time.perf_counter() - started
        cpu = cpu_of_tree_s(served.pid) - cpu
        turns = await served.metric("holdfast_turns_total") - turns
    accepted = found["statuses"].get("202", 0)
    return {
        "per_s": found["accepted_per_s"],
        "p50_ms": found["latency_ms"]["p50"],
        "p99_ms": found["latency_ms"]["p99"],
        "refused": sum(found["statuses"].values()) - accepted,
        "turns_per_s": turns / wall,
        "cpu_share": cpu / wall,
    }


async def idle(task: Task) -> dict[str, float]:
    """Time to readiness on an empty folder, and resident memory."""
    async with gateway(task.folder) as served:
        return {"ready_s": served.ready_s, "resident_mb": resident_kb(served.pid) / 1_024}
