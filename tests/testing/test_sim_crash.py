"""Every async verb of a port is a place to die, on both sides; nothing above the place runs any more."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from holdfast.testing import Crash, CrashPoint, SimLoop, SimNode, crashing, die, points


class Reader(Protocol):
    async def read(self) -> str: ...

    def stream(self, count: int) -> AsyncIterator[int]: ...


class Store(Reader, Protocol):
    limit: int

    async def accept(self, text: str, *, hop: int = 0) -> str: ...

    def now(self) -> int: ...

    async def _private(self) -> None: ...


class FakeStore:
    limit = 7

    def __init__(self):
        self.kept = []

    async def accept(self, text, *, hop=0):
        await asyncio.sleep(1)
        self.kept.append(text)
        return f"{text}/{hop}"

    async def read(self):
        return "".join(self.kept)

    async def stream(self, count):
        for n in range(count):
            yield n

    def now(self):
        return 42


def test_points_are_read_from_the_protocols():
    assert [str(point) for point in points(Store)] == [
        *("before read", "after read", "before stream", "after stream", "before accept", "after accept")
    ]
    assert points(Reader, Store) == points(Store)


async def use_everything(store):
    assert await store.accept("x", hop=2) == "x/2"
    assert await store.read() == "x"
    assert [n async for n in store.stream(3)] == [0, 1, 2]
    assert (store.now(), store.limit) == (42, 7)


def test_every_point_is_reached_and_results_pass_through():
    reached = []
    with SimLoop(1) as loop:
        port = crashing(FakeStore(), lambda verb, side: reached.append(CrashPoint(verb, side)))
        loop.run_until_complete(use_everything(port))
        loop.run_until_complete(port.read())
    assert sorted(set(reached)) == sorted(points(Store))
    assert len(reached) == len(points(Store)) + 2


def killing_at(point, by):
    def reach(verb, side):
        if CrashPoint(verb, side) == point:
            by(verb)

    return reach


def by_raising(verb):
    raise Crash(verb)


@pytest.mark.parametrize("by", [die, by_raising], ids=["die", "raise"])
@pytest.mark.parametrize("point", points(Store), ids=str)
def test_a_node_dies_at_any_point_and_nothing_above_it_runs(point, by):
    store, above = FakeStore(), []

    async def work(port):
        try:
            await use_everything(port)
        finally:
            above.append("finally")

    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(work(crashing(store, killing_at(point, by))), name="work")
        loop.run_until_complete(asyncio.sleep(60))
        assert (node.alive, above) == (False, [])
        assert store.kept == ([] if point == CrashPoint("accept", "before") else ["x"])


def test_killing_the_node_from_reach_is_enough():
    store = FakeStore()
    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(crashing(store, lambda verb, side: node.kill()).accept("x"), name="work")
        loop.run_until_complete(asyncio.sleep(60))
        assert store.kept == []


def test_a_crash_inside_the_verb_is_caught_at_its_edge():
    above = []

    class Dying(FakeStore):
        async def accept(self, text, *, hop=0):
            die("between two statements")

    async def work(port):
        try:
            await port.accept("x")
        finally:
            above.append("finally")

    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(work(crashing(Dying(), lambda verb, side: None)), name="work")
        loop.run_until_complete(asyncio.sleep(60))
        assert (node.alive, above) == (False, [])


async def test_outside_any_node_the_crash_reaches_the_test():
    with pytest.raises(Crash, match="read"):
        await crashing(FakeStore(), killing_at(CrashPoint("read", "before"), by_raising)).read()


@pytest.mark.parametrize("by", [die, by_raising], ids=["die", "raise"])
def test_a_crash_in_an_inlined_thread_kills_the_node_before_anyone_learns(by):
    above = []

    async def work():
        try:
            await asyncio.to_thread(by, "in a thread")
        finally:
            above.append("finally")

    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(work(), name="work")
        loop.run_until_complete(asyncio.sleep(60))
        assert (node.alive, above, loop.escaped) == (False, [], [])
