"""Ordered work on PostgreSQL: Holdfast answers messages of many chats, each chat in order, without memory."""

import asyncio
import time
from collections.abc import Sequence

from bench.ours.conversations import Holdfast
from bench.usage import cpu_s
from bench.work import Task, latencies
from holdfast.turns.journal import UserSaid


class Chats(Holdfast):
    async def prepare(self, names: Sequence[str], messages: int) -> None:
        """Nothing: the schema is made at the first opening."""

    async def turn(self, name: str, n: int) -> None:
        await self.runtime.ask(name, f"message {n}", id=f"r{self.task.repetition}t{n}")


async def measure(task: Task) -> dict[str, float]:
    """From the first message accepted to the last answered; every chat is accepted from in order."""
    chats = Chats(task)
    await chats.open()
    keys, jobs = task.load.conversations, task.option("jobs")
    await asyncio.gather(*(chats.turn(f"warm{key}", 0) for key in range(keys)))

    async def produce(key: int) -> list[float]:
        ids, began = [], []
        for n in range(jobs // keys):
            began.append(time.perf_counter())
            ids.append(await chats.runtime.send(f"key{key}", f"job {n}", id=f"j{n}"))
        ended = []
        for ident in ids:
            await chats.runtime.reply_to(ident)
            ended.append(time.perf_counter())
        return [end - begin for begin, end in zip(began, ended, strict=True)]

    cpu, started = cpu_s(), time.perf_counter()
    took = await asyncio.gather(*(produce(key) for key in range(keys)))
    figures = latencies([one for each in took for one in each], time.perf_counter() - started, cpu_s() - cpu)
    in_order = await all_in_order(chats, keys, jobs // keys)
    await chats.close()
    return {**figures, "in_order": float(in_order)}


async def all_in_order(chats: Chats, keys: int, each: int) -> bool:
    for key in range(keys):
        session = (await chats.runtime.sessions(chat=f"key{key}"))[0]
        entries = [view.entry.body for view in await chats.runtime.history(session.id, limit=10 * each)]
        texts = [body.text for body in entries if isinstance(body, UserSaid)]
        if texts != [f"job {n}" for n in range(each)]:
            return False
    return True
