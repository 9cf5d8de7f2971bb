"""The simulated loop runs ordinary asyncio code; only order and time belong to the seed."""

import asyncio
import gc
import itertools

import pytest

from holdfast.testing import Deadlock, SimLoop, SimNode, StepLimitReached


def run(work, seed=1, **options):
    with SimLoop(seed, **options) as loop:
        return loop.run_until_complete(work(loop))


def test_hours_pass_at_once_when_everybody_is_blocked():
    async def work(loop):
        await asyncio.gather(asyncio.sleep(3_600), asyncio.sleep(7_200))
        return loop.time(), loop.steps

    elapsed, steps = run(work)
    assert elapsed == pytest.approx(7_200)
    assert steps < 20


def test_time_stands_still_while_anybody_can_run():
    async def work(loop):
        alarm = loop.create_task(asyncio.sleep(0.001))
        for _ in range(1_000):
            await asyncio.sleep(0)
        return loop.time(), alarm.done()

    assert run(work) == (0.0, False)


def order_of(seed):
    async def work(loop):
        order = []

        async def step(n):
            await asyncio.sleep(0)
            order.append(n)

        await asyncio.gather(*(step(n) for n in range(6)))
        return order

    return run(work, seed)


def test_the_seed_decides_who_runs_next():
    assert order_of(3) == order_of(3)
    assert len({tuple(order_of(seed)) for seed in range(30)}) > 20


def test_timeouts_expire_in_virtual_time():
    async def work(loop):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(1_000), 12)
        assert await asyncio.wait_for(asyncio.sleep(5, "in time"), 12) == "in time"
        return loop.time()

    assert run(work) == pytest.approx(47)


@pytest.mark.parametrize("seed", range(20))
def test_queues_keep_order_under_any_schedule(seed):
    async def work(_loop):
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)

        async def produce():
            for n in range(20):
                await queue.put(n)

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            taken = group.create_task(take(queue, 20))
        return taken.result()

    async def take(queue, count):
        return [await queue.get() for _ in range(count)]

    assert run(work, seed) == list(range(20))


@pytest.mark.parametrize("seed", range(20))
def test_a_task_group_cancels_its_tasks_when_one_fails(seed):
    async def work(_loop):
        ended = []

        async def wait(n):
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append(n)

        async def fail():
            await asyncio.sleep(1)
            raise LookupError("this one")

        async def together():
            async with asyncio.TaskGroup() as group:
                for n in range(5):
                    group.create_task(wait(n))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup) as caught:
            await together()
        assert caught.group_contains(LookupError)
        return sorted(ended)

    assert run(work, seed) == [0, 1, 2, 3, 4]


def test_locks_events_and_conditions_work():
    async def work(_loop):
        lock, event, inside = asyncio.Lock(), asyncio.Event(), []

        async def enter(n):
            await event.wait()
            async with lock:
                inside.append(n)
                await asyncio.sleep(1)
                assert inside[-1] == n

        tasks = [asyncio.create_task(enter(n)) for n in range(4)]
        event.set()
        await asyncio.gather(*tasks)
        return sorted(inside)

    assert run(work) == [0, 1, 2, 3]


def test_threads_are_inlined_after_a_seeded_delay():
    async def work(loop):
        answers = await asyncio.gather(*(asyncio.to_thread(pow, 2, n) for n in range(5)))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        return answers, loop.time()

    answers, elapsed = run(work)
    assert answers == [1, 2, 4, 8, 16]
    assert 0 < elapsed < 0.05


def test_cancelling_does_not_stop_a_thread():
    async def work(loop):
        done: list[str] = []
        future = loop.run_in_executor(None, done.append, "effect")
        future.cancel()
        await asyncio.sleep(1)
        return done

    assert run(work) == ["effect"]


def test_a_deadlock_names_who_waits_and_where():
    async def wait_for_godot(event):
        await event.wait()

    async def work(loop):
        loop.create_task(wait_for_godot(asyncio.Event()), name="vladimir")
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"vladimir at Event\.wait \(locks\.py:\d+\)"):
        run(work)


def test_a_deadlock_tells_of_paused_nodes():
    async def work(loop):
        node = SimNode(loop, "n1")
        node.pause()
        await node.call(asyncio.sleep(1), name="nap")

    with pytest.raises(Deadlock, match=r"paused: n1 \(1 steps held\)"):
        run(work)


def test_spinning_meets_the_step_limit():
    async def work(_loop):
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(StepLimitReached, match="500 steps"):
        run(work, steps_max=500)


def test_an_action_happens_at_its_step():
    async def work(loop):
        seen = []
        loop.at_step(40, lambda: seen.append(loop.steps))
        loop.at_step(20, lambda: seen.append(loop.steps))
        for _ in range(100):
            await asyncio.sleep(0)
        return seen

    assert run(work) == [20, 40]


def test_an_error_of_an_unawaited_task_is_kept():
    async def fail():
        raise LookupError("nobody looks")

    async def work(loop):
        SimNode(loop, "n1").start(fail(), name="loop")
        loop.call_soon(divmod, 1, 0)
        await asyncio.sleep(1)
        return sorted(repr(escaped.error) for escaped in loop.escaped)

    assert [text.split("(")[0] for text in run(work)] == ["LookupError", "ZeroDivisionError"]


def test_cancelled_timers_do_not_pile_up():
    async def work(loop):
        loop.call_later(9_000, int)  # stands before the cancelled ones, so they do not come to the top
        for _ in range(5_000):
            async with asyncio.timeout(10_000):
                await asyncio.sleep(0.001)
        return len(loop._scheduled)

    assert run(work) < 300


def test_finished_tasks_do_not_pile_up():
    async def work(loop):
        for _ in range(5_000):
            await asyncio.create_task(asyncio.sleep(0))
        return len(loop._tasks)

    assert run(work) < 1_000


def test_collection_is_off_only_while_the_loop_runs():
    async def work(_loop):
        return gc.isenabled()

    assert not run(work)
    assert gc.isenabled()


def test_there_is_no_network():
    async def work(_loop):
        with pytest.raises(NotImplementedError, match="no network"):
            await asyncio.open_connection("example.invalid", 80)

    run(work)
