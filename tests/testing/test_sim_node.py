"""A killed node does nothing more, ever; a paused one does everything, later."""

import asyncio
import gc
import logging
from contextvars import ContextVar

import pytest

from holdfast.testing import Crash, NodeDown, SimClock, SimLoop, SimNode, SimTasks, crashing, die


async def tick(seen, node, count=1_000):
    try:
        for n in range(count):
            await asyncio.sleep(1)
            seen.append((node, n))
    finally:
        seen.append((node, "finally"))


def test_a_killed_node_runs_no_finally():
    with SimLoop(1) as loop:
        seen: list[tuple[str, object]] = []
        nodes = [SimNode(loop, "a"), SimNode(loop, "b")]
        for node in nodes:
            node.start(tick(seen, node.name, 10), name="tick")
        loop.call_later(4.5, nodes[0].kill)
        loop.run_until_complete(asyncio.sleep(100))
        verdict = list(seen)
    assert [n for node, n in verdict if node == "a"] == [0, 1, 2, 3]
    assert [n for node, n in verdict if node == "b"] == [*range(10), "finally"]


def test_whatever_a_node_started_dies_with_it():
    seen: list[object] = []

    async def parent():
        async with asyncio.TaskGroup() as group:
            group.create_task(tick(seen, "task"))
            asyncio.get_running_loop().call_later(9, seen.append, "timer")
            await asyncio.wait_for(asyncio.to_thread(seen.append, "thread"), 5)
            await asyncio.shield(asyncio.sleep(50))
            seen.append("after the shield")

    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(parent(), name="parent")
        loop.call_later(3.5, node.kill)
        loop.run_until_complete(asyncio.sleep(100))
        assert seen == ["thread", ("task", 0), ("task", 1), ("task", 2)]


def test_a_node_may_kill_itself_and_stops_at_once():
    seen = []

    class Port:
        async def write(self):
            seen.append("written")

    async def work(port):
        try:
            await port.write()
            seen.append("went on")
        finally:
            seen.append("finally")

    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        port = crashing(Port(), lambda verb, side: die(verb) if side == "after" else None)
        node.start(work(port), name="work")
        loop.run_until_complete(asyncio.sleep(1))
        assert seen == ["written"]
        assert not node.alive


def test_a_crash_that_reaches_the_top_of_a_task_kills_its_node():
    async def work():
        raise Crash("here")

    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(work(), name="work")
        loop.run_until_complete(asyncio.sleep(1))
        assert (node.alive, loop.escaped) == (False, [])


def test_the_clock_does_not_jump_for_the_dead():
    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(asyncio.sleep(5_000), name="nap")
        loop.call_later(1, node.kill)
        loop.run_until_complete(asyncio.sleep(2))
        with pytest.raises(RuntimeError, match="everybody waits"):
            loop.run_until_complete(loop.create_future())
        assert loop.time() == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_pause_delays_but_loses_nothing(seed):
    with SimLoop(seed) as loop:
        seen, nodes = [], [SimNode(loop, "a"), SimNode(loop, "b")]

        async def watch(node):
            for _ in range(10):
                await asyncio.sleep(1)
                seen.append((node.name, loop.time()))

        for node in nodes:
            node.start(watch(node), name="watch")
            for n in range(5):
                node.context.run(loop.call_later, 4, seen.append, (node.name, n))
        loop.call_later(3.5, nodes[0].pause)
        loop.call_later(60, nodes[0].thaw)
        loop.run_until_complete(asyncio.sleep(100))
        times = [at for node, at in seen if node == "a" and isinstance(at, float)]
        assert times == [1, 2, 3, 60, 61, 62, 63, 64, 65, 66]
        assert sorted(at for node, at in seen if node == "a" and isinstance(at, int)) == [0, 1, 2, 3, 4]
        assert [at for node, at in seen if node == "b" and isinstance(at, float)] == list(range(1, 11))


def test_timeouts_that_expire_during_a_pause_are_found_expired():
    async def work():
        await asyncio.wait_for(asyncio.sleep(10), 20)

    with SimLoop(4) as loop:
        node = SimNode(loop, "a")
        outcomes = set()
        for _ in range(30):
            started = loop.time()
            loop.call_later(5, node.pause)
            loop.call_later(50, node.thaw)
            try:
                loop.run_until_complete(node.call(work(), name="work"))
                outcomes.add("in time")
            except TimeoutError:
                outcomes.add("too late")
            assert loop.time() >= started + 50
        assert outcomes == {"in time", "too late"}


def test_a_paused_node_can_die():
    with SimLoop(1) as loop:
        seen: list[object] = []
        node = SimNode(loop, "a")
        node.start(tick(seen, "a"), name="tick")
        loop.call_later(2.5, node.pause)
        loop.call_later(9, node.kill)
        loop.call_later(10, node.thaw)
        loop.run_until_complete(asyncio.sleep(100))
        assert seen == [("a", 0), ("a", 1)]
        assert repr(node) == "<SimNode a dead>"


def test_a_caller_learns_that_the_node_died():
    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        assert loop.run_until_complete(node.call(asyncio.sleep(1, "answer"), name="ask")) == "answer"
        loop.call_later(1, node.kill)
        with pytest.raises(NodeDown, match="a died during ask"):
            loop.run_until_complete(node.call(asyncio.sleep(5), name="ask"))
        with pytest.raises(NodeDown):
            loop.run_until_complete(node.call(asyncio.sleep(5), name="too late"))


def test_resources_are_taken_away_at_death():
    with SimLoop(1) as loop:
        node, closed = SimNode(loop, "a"), []
        node.on_death(lambda: closed.append("file"))
        node.kill()
        node.kill()
        assert closed == ["file"]


def test_tasks_of_a_node_do_not_share_context_variables():
    pinned = ContextVar("pinned", default="nothing")
    seen = []

    async def work(name):
        seen.append(pinned.get())
        pinned.set(name)

    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        for name in ("one", "two"):
            loop.run_until_complete(node.call(work(name), name=name))
    assert seen == ["nothing", "nothing"]


def test_clocks_follow_the_loop_with_a_skew_per_node():
    with SimLoop(1) as loop:
        right, wrong = SimClock(loop), SimClock(loop, skew_ms=-1_500)
        loop.run_until_complete(SimTasks(loop, SimNode(loop, "a")).sleep(300))
        assert (right.now(), wrong.now()) == (1_700_000_000_300, 1_699_999_998_800)


class Awkward:
    """Everything a dying program may try."""

    def __init__(self, effects):
        self.effects = effects

    async def write(self):
        self.effects.append("write")

    async def items(self):
        try:
            while True:
                await asyncio.sleep(1)
                yield 1
        finally:
            await asyncio.sleep(1)
            self.effects.append("closed")


async def clean_up(port):
    try:
        async for _ in port.items():
            await asyncio.sleep(1)
    finally:
        logging.getLogger("awkward").error("dying")
        await port.write()
        await asyncio.sleep(1)
        await asyncio.gather(port.write(), asyncio.create_task(port.write()))


async def never_give_up(port):
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:  # noqa: BLE001
            await port.write()


@pytest.mark.parametrize("killed", [True, False])
def test_the_dead_are_buried_without_a_sound_or_an_effect(killed, caplog):
    effects: list[str] = []
    reached: list[str] = []
    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        port = crashing(Awkward(effects), lambda verb, side: reached.append(f"{side} {verb}"))
        for work in (clean_up, never_give_up):
            node.start(work(port), name=work.__name__)
        loop.run_until_complete(asyncio.sleep(10))
        if killed:
            node.kill()
        node.start(clean_up(port), name="never started")
    gc.collect()  # a warning of a finaliser fails the test: warnings are errors here
    assert (effects, caplog.records) == ([], [])
    assert reached == ["before items"]  # a dead node reaches no further point


async def abandon(port, node):
    async for _ in port.items():
        break  # asyncio now wants to close the generator in a step of its own
    node.kill()
    await asyncio.sleep(1)


def test_a_generator_that_was_being_closed_is_buried_too():
    effects: list[str] = []
    with SimLoop(1) as loop:
        node = SimNode(loop, "a")
        node.start(abandon(Awkward(effects), node), name="abandon")
        loop.run_until_complete(asyncio.sleep(10))
    gc.collect()
    assert effects == []


def test_a_loop_may_be_closed_twice_and_outlived_by_its_nodes():
    loop = SimLoop(1)
    node = SimNode(loop, "a")
    loop.close()
    loop.close()
    node.kill()
    assert loop.is_closed()
