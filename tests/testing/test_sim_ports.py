"""The simulated ports keep the promises of the real ones."""

import pytest

from holdfast.kernel.ids import Instant
from holdfast.testing import ManualClock, SeededEntropy, SimLoop, SimNode, SimTasks, Violation, describe


def test_a_manual_clock_moves_only_when_told_and_never_back():
    clock = ManualClock()
    assert (clock.now(), clock.now()) == (1_700_000_000_000, 1_700_000_000_000)
    clock.advance(250)
    clock.jump_to(Instant(1_700_000_001_000))
    assert clock.now() == 1_700_000_001_000
    with pytest.raises(ValueError, match="backwards"):
        clock.jump_to(Instant(1))


def test_seeded_chance_repeats_itself():
    draws = [[(e.bits(80), e.fraction()) for _ in range(5)] for e in map(SeededEntropy, ("7/a", "7/a", "7/b"))]
    assert draws[0] == draws[1] != draws[2]
    assert all(0 <= bits < 2**80 and 0 <= fraction < 1 for bits, fraction in draws[0])


def test_tasks_start_sleep_cancel_and_run_blocking_calls():
    with SimLoop(1) as loop:
        tasks, seen = SimTasks(loop, SimNode(loop, "a")), []

        async def work(delay_ms):
            await tasks.sleep(delay_ms)
            seen.append(await tasks.in_thread(lambda: round(loop.time())))

        async def main():
            first, second = tasks.start(work(2_000), name="first"), tasks.start(work(9_000), name="second")
            await tasks.sleep(5_000)
            assert (first.done(), second.done()) == (True, False)
            second.cancel()
            await tasks.sleep(10_000)
            return second.done()

        assert loop.run_until_complete(main())
        assert (seen, loop.escaped) == ([2], [])


def test_a_report_names_the_seed_and_the_invariant():
    found = [Violation("I4", "session s1: fence 3 after 4")]
    assert describe(77, found) == "seed 77: 1 violation\n  I4: session s1: fence 3 after 4"
