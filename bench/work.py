"""One measurement: the task that a child process is given, and the drive of contestants that hold conversations.

Standard library only: this module also runs in the environments of the peers.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.usage import cpu_s, folder_bytes

WARM_S = 0.5
WARM_TURNS = 1_000_000  # the number of the first turn that only warms up, so that no number is used twice
PREPARED_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The size of one cell. `turns_each` turns go to a conversation before the next one is taken."""

    history: int = 0  # messages that each conversation has already
    conversations: int = 1
    at_once: int = 1
    turns_each: int = 50
    turns_max: int = 1_000_000
    seconds: float = 3.0
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a child process does: prepare a folder, or measure once in it."""

    contestant: str  # module:name
    step: str  # prepare or measure
    folder: Path
    repetition: int
    load: Load

    def option(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - a JSON value
        return self.load.options.get(name, default)


class Conversations(ABC):
    """A contestant that holds conversations in a folder."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.folder = task.folder

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def prepare(self, names: Sequence[str], messages: int) -> None:
        """Give each conversation that many earlier messages. Nothing of this is measured."""

    async def meet(self, name: str) -> None:  # noqa: B027 - most contestants need nothing
        """Open a conversation before the measurement, as a process that has been running has it open."""

    @abstractmethod
    async def turn(self, name: str, n: int) -> None:
        """One unit of the measured work. It is durable on return."""

    async def settle(self) -> None:  # noqa: B027 - most contestants leave nothing behind
        """Finish the work that turns left behind. Its CPU counts, its time does not."""

    async def check(self) -> dict[str, float]:
        """Further figures, taken after the measurement."""
        return {}

    @abstractmethod
    async def close(self) -> None: ...


def prepared_names(load: Load) -> list[str]:
    return [f"s{number}" for number in range(load.conversations)]


def schedule(load: Load, repetition: str, worker: int) -> Callable[[int], str]:
    """The conversation of a worker's turns. No two workers share one.

    Conversations with earlier messages are used in turn. Without any, a new one begins after `turns_each` turns.
    """
    own = len(range(worker, load.conversations, load.at_once))

    def at(turn: int) -> str:
        if load.at_once == 1:  # stay in one conversation, then take the next
            generation, number = turn // load.turns_each // own, turn // load.turns_each % own
        else:
            generation, number = turn // own // load.turns_each, turn % own
        name = f"s{worker + load.at_once * number}"
        return name if load.history else f"r{repetition}g{generation}{name}"

    return at


async def in_parallel(jobs: Iterable[Coroutine[Any, Any, None]], at_once: int = PREPARED_AT_ONCE) -> None:
    """Run all of the jobs, a limited number at a time."""
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await job

    await asyncio.gather(*(work() for _ in range(at_once)))


def first_names(load: Load, repetition: str) -> list[str]:
    """The conversations that are met before the measurement. Those that replace them later are new."""
    if load.history:
        return prepared_names(load)
    places = [schedule(load, repetition, worker) for worker in range(load.at_once)]
    rounds = 1 if load.at_once == 1 else -(-load.conversations // load.at_once)
    return list(dict.fromkeys(place(turn) for turn in range(rounds) for place in places))


async def drive(made: Conversations, task: Task) -> dict[str, float]:
    """Prepare, or measure turns from `at_once` workers for some seconds."""
    await made.open()
    if task.step == "prepare":
        await made.prepare(prepared_names(task.load), task.load.history)
        await made.settle()
        await made.close()
        return {}
    await _turns(made, task, min(WARM_S, task.load.seconds), max(1, task.load.turns_max // 4), warming=True)
    await made.settle()
    if task.option("disk"):
        return await _disk(made, task)
    for name in first_names(task.load, str(task.repetition)):
        await made.meet(name)
    cpu, started = cpu_s(), time.perf_counter()
    took = await _turns(made, task, task.load.seconds, task.load.turns_max)
    wall = time.perf_counter() - started
    await made.settle()
    figures = {**latencies(took, wall, cpu_s() - cpu), **await made.check()}
    await made.close()
    return figures


async def _disk(made: Conversations, task: Task) -> dict[str, float]:
    """Bytes that the folder grows by per turn, between two closings: logs are written back by then."""
    await made.close()
    before = folder_bytes(task.folder)
    await made.open()
    took = await _turns(made, task, task.load.seconds, task.load.turns_max)
    await made.settle()
    await made.close()
    return {"count": len(took), "bytes": (folder_bytes(task.folder) - before) / len(took)}


async def _turns(
    made: Conversations, task: Task, seconds: float, turns_max: int, *, warming: bool = False
) -> list[float]:
    took: list[float] = []
    started = time.perf_counter()

    async def work(worker: int) -> None:
        place = schedule(task.load, f"{task.repetition}{'w' if warming else ''}", worker)
        turn = WARM_TURNS if warming else 0
        while time.perf_counter() - started < seconds and len(took) < turns_max:
            before = time.perf_counter()
            await made.turn(place(turn), turn)
            took.append(time.perf_counter() - before)
            turn += 1

    await asyncio.gather(*(work(worker) for worker in range(task.load.at_once)))
    return took


def latencies(took: Sequence[float], wall: float, cpu: float) -> dict[str, float]:
    """Figures of units that took these seconds each; `cpu` is that of all of them."""
    ordered = sorted(took)
    return {
        "count": len(ordered),
        "per_s": len(ordered) / wall,
        "cpu_ms": cpu / len(ordered) * 1_000,
        "p50_ms": ordered[len(ordered) // 2] * 1_000,
        "p99_ms": ordered[int(len(ordered) * 0.99)] * 1_000,
    }
