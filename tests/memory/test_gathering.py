"""Under load the units of several turns share one call of a provider that asks for it, and an idle one is called at
once (`Capabilities.gather_ms`)."""

from itertools import pairwise

from tests.support.memory_provider import Service
from tests.support.memory_world import World, all_deliveries, say, shelf, states

GATHER_MS = 50
TURNS = 20


def test_the_first_turn_is_delivered_at_once_and_those_of_a_burst_together(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, gather_ms=GATHER_MS, lanes_per_call=8, units_per_lane=64))
        began = world.loop.time()
        await say(runtime, *(f"word {n}" for n in range(TURNS)))
        await world.pass_time(2 * GATHER_MS / 1_000)
        calls = [call for call in service.calls if call.verb == "deliver"]
        times = [call.at_s - began for call in calls]
        assert times[0] < GATHER_MS / 1_000
        assert all(later - earlier >= GATHER_MS / 1_000 for earlier, later in pairwise(times))
        assert len(calls) < TURNS / 2
        assert service.words() == [f"word {n}" for n in range(TURNS)]
        assert states(await all_deliveries(runtime)) == {"delivered": TURNS}
        await runtime.close()

    world.run(scenario())


def test_a_full_call_is_followed_by_the_next_one_at_once(world: World):
    """Many chats wait after an outage: the pause between two calls is not added to each of them."""
    service = Service(away="it is down")

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, gather_ms=10_000, lanes_per_call=2, calls_max=1))
        for n in range(TURNS):
            await say(runtime, f"word {n}", chat=f"c{n}")
        service.away = ""
        since = world.loop.time()
        await world.pass_time(60)
        calls = [call for call in service.calls if call.verb == "deliver" and call.at_s > since]
        assert states(await all_deliveries(runtime)) == {"delivered": TURNS}
        assert calls[-1].at_s - calls[0].at_s < TURNS / 2 * 10
        await runtime.close()

    world.run(scenario())
