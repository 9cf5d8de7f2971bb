"""Round trips to PostgreSQL: what a turn, an accept and an idle second cost."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import holdfast
from bench.ours.conversations import Instant
from bench.postgres import Server, Trips, counting
from bench.work import Task

WARM = 20
IDLE_S = 5.0


async def measure(task: Task) -> dict[str, float]:
    """Messages one after another in one chat, through a proxy that counts. Idle trips are counted apart."""
    trips, count = Trips(), task.option("turns")
    async with counting(task.option("port"), trips) as port:
        address = Server(port, 0, task.folder).address(task.option("database"))
        policy = holdfast.AgentPolicy(memory={})
        async with holdfast.open(address, model=Instant(), policy=policy) as runtime:
            for n in range(WARM):
                await runtime.ask("chat", "hello", id=f"warm{n}")
            idle = await _trips_while(trips, asyncio.sleep(IDLE_S)) / IDLE_S

            async def turns() -> None:
                for n in range(count):
                    await runtime.ask("chat", f"message {n}", id=f"turn{n}")

            turn = await _trips_while(trips, turns()) / count  # with its accept
        async with holdfast.open(address, model=Instant(), policy=policy, serve=False) as runtime:
            for n in range(WARM):
                await runtime.send("chat", "hello", id=f"warm-accept{n}")

            async def accepts() -> None:
                for n in range(count):
                    await runtime.send("chat", f"message {n}", id=f"accept{n}")

            accept = await _trips_while(trips, accepts()) / count
    return {"trips_per_turn": turn - accept, "trips_per_accept": accept, "trips_per_idle_s": idle}


async def _trips_while(trips: Trips, work: Coroutine[Any, Any, None]) -> int:
    before = trips.count
    await work
    return trips.count - before
