"""Shutting down takes no new work, loses none and ends in bounded time; what is left goes out after the restart (R7).

The service of these tests keeps a second copy of a repeated parcel, so nothing may be resent blindly.
"""

import pytest

from holdfast.memory.dispatcher import Dispatcher
from holdfast.memory.provider import Configured
from holdfast.runtime.supervisor import GRACE_MS, LEAVE_MS
from tests.support.fakes import Gate
from tests.support.memory_provider import Service
from tests.support.memory_world import World, all_deliveries, say, shelf, states


def one_call(service: Service) -> Configured:
    """A provider that is called by one dispatcher at a time, so that all others wait."""
    return shelf(service, calls_max=1)


async def begin(world: World, service: Service):
    """Two turns in one chat and one in another; the first is with the service, the others wait."""
    runtime = await world.open(shelf=one_call(service))
    await say(runtime, "one", "two")
    await say(runtime, "three", chat="other")
    assert service.hold is not None
    await service.hold.arrival()
    return runtime


async def finish(world: World, service: Service) -> None:
    """Another process, and a service that answers."""
    service.hold = None
    runtime = await world.open(shelf=one_call(service))
    await world.pass_time(120)
    assert states(await all_deliveries(runtime)) == {"delivered": 3}


def test_closing_lets_calls_under_way_end_and_begins_no_other(world: World):
    """One of two calls ends early: its lane has more to send, which is not sent."""
    early, late = Gate(), Gate()
    service = Service(hold=early, keeps_first=False)

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "one", "two")
        await early.arrival()
        service.hold = late
        await say(runtime, "three", chat="other")
        await late.arrival()
        service.hold = None  # a later call would be answered at once
        world.loop.call_later(0.5, early.open)
        world.loop.call_later(1.5, late.open)
        await runtime.close()
        assert service.words() == ["one", "three"]
        found = dict(world.rows("select state, count(*) from delivery group by state"))
        assert found == {"delivered": 2, "scheduled": 1}
        await finish(world, service)

    world.run(scenario())
    assert service.words() == ["one", "three", "two"]
    assert "landed" not in {call.verb for call in service.calls}, "no outcome was unknown"


@pytest.mark.parametrize("landed", [True, False], ids=["kept", "not kept"])
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_what_was_with_a_service_that_never_answers_is_asked_about_and_is_there_once(
    world: World, end: str, landed: bool
):
    service = Service(hold=Gate(), keeps_first=landed)

    async def scenario() -> float:
        runtime = await begin(world, service)
        began = world.loop.time()
        if end == "closed":
            await runtime.close()
        else:
            world.kill()
        took_s = world.loop.time() - began
        assert service.sent() == 1, "no other call was begun"
        await finish(world, service)
        return took_s

    took_s = world.run(scenario())
    assert took_s <= (GRACE_MS + Dispatcher.grace_ms + LEAVE_MS) / 1000
    assert sorted(service.words()) == ["one", "three", "two"]
    assert service.words().index("one") < service.words().index("two")
    asked = [call.ids for call in service.calls if call.verb == "landed"]
    assert set(asked) == {(service.held[0].id,)}, "asked about, and nothing else was"
    assert service.sent() == (3 if landed else 4)


def test_a_request_that_was_cut_off_and_takes_effect_late_is_found_and_not_sent_again(world: World):
    """An absent delivery counts as absent only after the provider's quiet period."""
    service = Service(hold=Gate(), keeps_first=False)

    async def scenario() -> None:
        runtime = await begin(world, service)
        await runtime.close()
        assert service.words() == []
        world.loop.call_later(3, service.kept.append, service.held[0])
        await finish(world, service)

    world.run(scenario())
    assert sorted(service.words()) == ["one", "three", "two"]
    assert service.words().index("one") < service.words().index("two")
    assert service.sent() == 3


def test_turns_during_an_outage_are_delivered_after_the_last_of_several_restarts(world: World):
    """Several restarts with a service that is away all the while."""
    service = Service(away="connection refused")

    async def scenario() -> None:
        for n in range(4):
            runtime = await world.open(shelf=shelf(service))
            await say(runtime, f"turn {n}")
            if n % 2:
                await runtime.close()
            else:
                world.kill()
        service.away = ""
        runtime = await world.open(shelf=shelf(service))
        await world.pass_time(120)
        assert states(await all_deliveries(runtime)) == {"delivered": 4}

    world.run(scenario())
    assert service.words() == [f"turn {n}" for n in range(4)]
