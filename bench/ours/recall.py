"""Searching memory: lines that one person said, and where the cell says so, lines of other people in the same index."""

import time
from collections.abc import Sequence

from bench import texts
from bench.ours.conversations import INDEX, AnswersWithMemory
from bench.usage import cpu_s
from bench.work import Task, in_parallel, latencies
from holdfast.turns.journal import AssistantSaid, UserSaid

TURN_LINES = 10  # entries of one recorded turn; each is one line of the index
SESSION_LINES = 500
PERSON = "ada"
WARM = 20


class Index(AnswersWithMemory):
    async def prepare(self, names: Sequence[str], messages: int) -> None:
        del names, messages
        own, people, each = (self.task.option(name, 0) for name in ("lines", "people", "lines_each"))
        await in_parallel(self._session(PERSON, start, own) for start in range(0, own, SESSION_LINES))
        await in_parallel(self._session(f"person{n}", 0, each, own + n * each) for n in range(people))
        await self.runtime.backfill(INDEX)

    async def _session(self, person: str, start: int, end: int, offset: int = 0) -> None:
        """Record lines start to end of a person, at most one session full."""
        for first in range(start, min(end, start + SESSION_LINES), TURN_LINES):
            lines = [texts.line(offset + n) for n in range(first, min(end, first + TURN_LINES))]
            entries = [
                UserSaid(text=line, principal=person) if n % 2 == 0 else AssistantSaid(text=line)
                for n, line in enumerate(lines)
            ]
            await self.record(f"{person}-{start}", f"t{first}", entries, person)


async def measure(task: Task) -> dict[str, float]:
    """One search after another; each asks for words that one of the person's lines has."""
    index = Index(task)
    await index.open()
    if task.step == "prepare":
        await index.prepare((), 0)
        await index.settle()
        await index.close()
        return {}
    lines: int = task.option("lines")
    took: list[float] = []
    found = 0

    async def search(number: int) -> None:
        nonlocal found
        before = time.perf_counter()
        outcome = await index.runtime.recall(texts.question(number, lines), sender=PERSON)
        took.append(time.perf_counter() - before)
        found += bool(outcome.memories)

    base = 10_000 * task.repetition
    for number in range(WARM):
        await search(base - number)
    took.clear()
    found, cpu, started = 0, cpu_s(), time.perf_counter()
    while time.perf_counter() - started < task.load.seconds:
        await search(base + len(took))
    figures = latencies(took, time.perf_counter() - started, cpu_s() - cpu)
    await index.close()
    return {**figures, "answered": found / len(took)}
