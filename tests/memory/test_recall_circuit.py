"""A provider that hangs, or fails, is asked by a few turns and then by a probe now and then: no turn waits for it.

The turn says what was left out and why. Calls are counted and the clock is the loop's, which jumps.
"""

import pytest

from holdfast.kernel.retry import FAILURES_MAX
from holdfast.memory.recall import RecallPolicy
from tests.support.fakes import Gate, policy
from tests.support.memory_provider import Service
from tests.support.memory_world import World, say, shelf

pytestmark = pytest.mark.usefixtures("hours")
BUDGET_S = RecallPolicy().budget_ms / 1000
TURNS = 20


async def timed(world: World, runtime, text: str) -> float:
    began = world.loop.time()
    await say(runtime, text)
    return world.loop.time() - began


def test_a_hanging_provider_costs_its_budget_a_few_times_and_then_nothing(world: World):
    hanging, well = Service(recall_script=[Gate() for _ in range(1_000)]), Service()

    async def scenario() -> list[float]:
        runtime = await world.open(shelf=shelf(hanging, recalls=True), well=shelf(well, name="well", recalls=True))
        return [await timed(world, runtime, f"turn {n}") for n in range(TURNS)]

    took_s = world.run(scenario())
    assert [took >= BUDGET_S for took in took_s] == [n < FAILURES_MAX for n in range(TURNS)]
    assert max(took_s[FAILURES_MAX:]) < 0.1, "neither the open circuit nor a probe slows a turn"
    assert len(well.lookups) == TURNS, "the other provider is asked in every turn"
    shown = world.contexts()
    assert "shelf did not answer within 1500 ms" in shown[0]
    assert "shelf was not asked: it did not answer 3 times in a row" in shown[-1]


def test_an_open_circuit_costs_a_probe_now_and_then_beside_the_turn(world: World):
    hanging = Service(recall_script=[Gate() for _ in range(1_000)])

    async def scenario() -> tuple[list[float], int]:
        runtime = await world.open(shelf=shelf(hanging, recalls=True))
        for n in range(FAILURES_MAX):
            await say(runtime, f"first {n}")
        asked, took_s = len(hanging.lookups), []
        for n in range(60):
            took_s.append(await timed(world, runtime, f"turn {n}"))
            await world.pass_time(10)
        return took_s, len(hanging.lookups) - asked

    took_s, probes = world.run(scenario())
    assert max(took_s) < 0.1
    assert 10 <= probes <= 40, "ten minutes: one probe in half a minute at the longest, and never one per turn"


def test_a_provider_that_answers_again_is_asked_again(world: World):
    service = Service(recall_script=[Gate() for _ in range(FAILURES_MAX)])

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, recalls=True))
        for n in range(FAILURES_MAX):
            await say(runtime, f"first {n}")
        await world.pass_time(60)
        await say(runtime, "probing")
        await world.pass_time(1)
        await say(runtime, "after")

    world.run(scenario())
    *_, probing, after = world.contexts()
    assert "shelf was not asked" in probing
    assert "canary" not in probing, "a probe's answer is used for no turn"
    assert "canary" in after
    assert "Memory is incomplete" not in after


def test_a_provider_that_fails_at_once_opens_the_circuit_too(world: World):
    service = Service(away="connection refused")

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, recalls=True))
        for n in range(TURNS):
            await say(runtime, f"turn {n}")

    world.run(scenario())
    assert len(service.lookups) <= FAILURES_MAX + 2
    assert "shelf failed" in world.contexts()[0]
    assert "shelf was not asked" in world.contexts()[-1]


def test_what_would_be_asked_ahead_is_not_asked_while_the_circuit_is_open(world: World):
    hanging = Service(recall_script=[Gate() for _ in range(1_000)])

    async def scenario() -> int:
        runtime = await world.open(policy(), shelf=shelf(hanging, recalls=True, prefetches=True))
        for n in range(FAILURES_MAX):
            await say(runtime, f"first {n}")
        asked = len(hanging.lookups)
        for n in range(10):
            await say(runtime, f"turn {n}")
        return len(hanging.lookups) - asked

    assert world.run(scenario()) <= 1
