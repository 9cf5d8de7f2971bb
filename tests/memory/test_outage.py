"""A provider that is away, sick, or fails on one thing delays that thing and nothing else (R8, R9, D21).

What waits is kept, in order, and is shown as it is: what state, how often tried, why not, when again.
"""

from dataclasses import replace

import pytest

from holdfast.kernel.ids import DeliveryId
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory import dispatcher
from holdfast.memory.delivery import DeliveryView
from holdfast.runtime.runtime import Runtime
from holdfast.store import membership
from tests.support.memory_provider import Service, units
from tests.support.memory_world import World, all_deliveries, say, shelf, states

pytestmark = pytest.mark.usefixtures("hours")
CHATS = 10
LONG_S = 600  # for a unit to fail, before the provider's own word on its health counts


async def talk(world: World, runtime: Runtime, minutes: range) -> None:
    """Every chat says something every ten minutes."""
    for minute in minutes:
        for chat in range(minute % 10, CHATS, 10):
            await say(runtime, f"{chat}/{minute}", chat=f"chat-{chat}")
        await world.pass_time(60)


def in_order(service: Service) -> bool:
    """Whether each chat's words came in the order in which they were said."""
    told = [tuple(map(int, text.split("/"))) for text in service.words()]
    return all(
        [minute for one, minute in told if one == chat] == sorted(minute for one, minute in told if one == chat)
        for chat in range(CHATS)
    )


def heads(found: list[DeliveryView]) -> list[DeliveryView]:
    """The oldest of each lane that has not arrived."""
    first: dict[str, DeliveryView] = {}
    for view in found:
        if view.state != "delivered":
            first.setdefault(view.place, view)
    return list(first.values())


def test_after_an_hour_away_everything_arrives_once_and_in_order(world: World):
    """The process is killed halfway, too, and what it knew of the provider is gone."""
    lost, well = Service(away="connection refused"), Service()

    def memory():
        return {"lost": shelf(lost, name="lost", units_per_lane=4), "well": shelf(well, name="well")}

    async def scenario() -> tuple[list[DeliveryView], int]:
        runtime = await world.open(**memory())
        await talk(world, runtime, range(30))
        world.kill()
        runtime = await world.open(**memory())
        await talk(world, runtime, range(30, 60))
        during = list(await all_deliveries(runtime, provider="lost"))
        assert states(await all_deliveries(runtime, provider="well")) == {"delivered": 6 * CHATS}
        calls = lost.sent()
        lost.away = ""
        await world.pass_time(600)
        assert states(await all_deliveries(runtime)) == {"delivered": 12 * CHATS}
        return during, calls

    during, calls = world.run(scenario())
    assert sorted(lost.words()) == sorted(well.words())
    assert len(set(lost.words())) == len(lost.words()) == 6 * CHATS
    assert in_order(lost)
    assert in_order(well)
    assert lost.crowded == []

    # What could be seen meanwhile was the truth.
    assert states(during) == {"scheduled": 6 * CHATS}
    now = max(view.at for view in during)
    first = heads(during)
    assert len(first) == CHATS
    tried = [view for view in first if view.attempt]
    assert tried
    assert {view.reason for view in tried} == {"connection refused"}
    assert any(view.due_at > now for view in tried), "the next try is shown"
    assert {(view.attempt, view.reason) for view in during if view not in first} == {(0, None)}, "what waits waits"
    assert max(view.attempt for view in during) >= 3
    # A dead provider costs a probe now and then, however many chats wait for it.
    assert calls <= 200


def test_the_circuit_makes_an_outage_cost_the_same_however_many_chats_wait(world: World):
    """Ten minutes: a probe every half minute or so, not an attempt per chat and backoff."""

    async def calls_with(chats: int, name: str) -> int:
        lost = Service(away="connection refused")
        runtime = await world.open(**{name: shelf(lost, name=name)})
        for chat in range(chats):
            await say(runtime, "hello", chat=f"{name}-{chat}")
        await world.pass_time(600)
        await runtime.close()
        return lost.sent()

    few, many = world.run(calls_with(2, "few")), world.run(calls_with(60, "many"))
    assert many <= 45, (few, many)


def test_each_provider_has_its_own_cursor_and_a_dead_one_delays_no_other(world: World):
    swift, batching, dead = Service(), Service(), Service(away="no route to host")

    async def scenario() -> str:
        runtime = await world.open(
            swift=shelf(swift, name="swift"),
            batching=shelf(batching, name="batching", every_turns=3),
            dead=shelf(dead, name="dead"),
        )
        for n in range(1, 5):
            await say(runtime, f"turn {n}")
            await world.pass_time(1)
            assert swift.words() == [f"turn {k}" for k in range(1, n + 1)], "told within a second, each"
        (session,) = await runtime.sessions(chat="c")
        message = await runtime.send("c", "turn 5")
        await world.pass_time(1)
        trace = await runtime.trace(message)
        shown = {one.provider: (one.state, one.reason) for one in trace.deliveries}
        assert shown["swift"] == ("delivered", None)
        assert shown["batching"] == ("scheduled", "it is sent together with the next turns")
        assert shown["dead"][0] == "scheduled"
        return session.id

    session = world.run(scenario())
    assert [words for _, words in units(batching)] == [["turn 1", "turn 2", "turn 3"]]
    cursors = {provider: marks for (provider, stream), marks in world.cursors().items() if stream == session}
    entries_a_turn = 2
    assert cursors == {
        "swift": (5 * entries_a_turn, 5 * entries_a_turn),
        "batching": (3 * entries_a_turn, 3 * entries_a_turn),
        "dead": (5 * entries_a_turn, 0),
    }


# --- one bad turn ----------------------------------------------------------------------------------


def test_one_bad_turn_is_parked_with_its_reason_and_the_rest_of_its_lane_arrives(world: World):
    """The provider fails on these words each time and takes others meanwhile: the words are to blame."""
    service = Service(poison="arsenic")

    async def scenario() -> DeliveryView:
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "one", "some arsenic", "three", "four")
        for minute in range(20):
            await say(runtime, f"elsewhere {minute}", chat="other")
            await world.pass_time(60)
        (parked,) = await all_deliveries(runtime, state="parked")
        assert [text for text in service.words() if "elsewhere" not in text] == ["one", "three", "four"]
        assert parked.reason == (
            "the provider fails on this delivery each time and accepts others: 500 Internal Server Error"
        )
        assert not parked.late
        cursor = {stream: marks for (_, stream), marks in world.cursors().items()}[parked.stream]
        assert cursor[0] == cursor[1], "the mark passes what is parked"

        service.poison = ""  # the service was repaired
        await runtime.replay(DeliveryId(parked.id))
        await world.pass_time(10)
        return next(one for one in await all_deliveries(runtime) if one.id == parked.id)

    replayed = world.run(scenario())
    assert (replayed.state, replayed.late) == ("delivered", True)
    assert [text for text in service.words() if "elsewhere" not in text] == ["one", "three", "four", "some arsenic"]


def test_one_bad_turn_in_the_only_chat_is_parked_after_a_long_wait_because_the_provider_is_well(world: World):
    """Nothing else was taken meanwhile, so there is only the provider's own word for it."""
    service = Service(poison="arsenic")
    world.dispatch_policy = replace(world.dispatch_policy, poison_wait_ms=LONG_S * 1_000)

    async def scenario() -> list[str]:
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "some arsenic", "two")
        await world.pass_time(LONG_S * 0.9)
        assert service.words() == []
        await world.pass_time(LONG_S)
        return [one.state for one in await all_deliveries(runtime)]

    assert world.run(scenario()) == ["parked", "delivered"]
    assert service.words() == ["two"]


def test_a_provider_that_fails_on_everything_is_sick_and_nothing_is_parked(world: World):
    service = Service(sick="the database is gone")
    world.dispatch_policy = replace(world.dispatch_policy, poison_wait_ms=LONG_S * 1_000)

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "one", "two")
        await say(runtime, "three", chat="other")
        await world.pass_time(3 * LONG_S)
        assert states(await all_deliveries(runtime)) == {"scheduled": 3}
        service.sick = ""
        await world.pass_time(600)
        assert states(await all_deliveries(runtime)) == {"delivered": 3}

    world.run(scenario())
    assert sorted(service.words()) == ["one", "three", "two"]
    assert service.words().index("one") < service.words().index("two")


# --- an outage that answers, and what comes after it -----------------------------------------------

MANY_CHATS = 40


async def said_by_many(runtime: Runtime, text: str) -> None:
    for chat in range(MANY_CHATS):
        await say(runtime, f"{text} of {chat}", chat=f"many-{chat}")


@pytest.mark.parametrize("share", [0.4, 0.7, 0.9])
def test_no_good_turn_is_parked_after_an_outage_of_500s_and_by_a_half_healthy_provider(world: World, share: float):
    """270 s of 500s while its health says that all is well, then a share of failures by chance."""
    service = Service(sick="the database is gone", says_well=True)

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service))
        await said_by_many(runtime, "first")
        await world.pass_time(270)
        assert service.kept == []
        service.sick, service.failing_share = "", share
        for n in range(5):
            await said_by_many(runtime, f"word {n}")
            await world.pass_time(120)
        assert await all_deliveries(runtime, state="parked") == []
        service.failing_share = 0.0
        await world.pass_time(120)
        assert states(await all_deliveries(runtime)) == {"delivered": 6 * MANY_CHATS}

    world.run(scenario())
    assert len(set(service.words())) == len(service.words()) == 6 * MANY_CHATS


@pytest.mark.parametrize("away", ["connection refused", ""])
def test_when_a_provider_is_back_no_lane_waits_for_long(world: World, away: str):
    """Waits grow while it is away. The first delivery after it shortens those of all its lanes."""
    service = Service(away=away, sick="" if away else "the database is gone", says_well=True)

    async def scenario() -> float:
        runtime = await world.open(shelf=shelf(service))
        await said_by_many(runtime, "first")
        await world.pass_time(900)
        service.away = service.sick = ""
        healed_s = world.loop.time()
        await world.pass_time(60)
        assert states(await all_deliveries(runtime)) == {"delivered": MANY_CHATS}
        return healed_s

    healed_s = world.run(scenario())
    after = [call.at_s - healed_s for call in service.calls if call.verb == "deliver" and call.at_s >= healed_s]
    assert max(after) - min(after) < 5, "once one was taken, the others follow at once"


def test_a_day_of_500s_parks_nothing_while_other_chats_fail_as_well(world: World, monkeypatch):
    """A try every hundred seconds is as good as one every thirty here, and so is a look for due work every five."""
    monkeypatch.setattr(membership, "LOOK_EVERY_MS", membership.LEASE_MS // 3)
    monkeypatch.setattr(membership, "LOOKS_PER_LEASE", 3)
    monkeypatch.setattr(dispatcher, "POLL_MS", 60_000)
    world.dispatch_policy = replace(world.dispatch_policy, retry=RetryPolicy(delay_ms_base=1_000, delay_ms_max=100_000))
    service = Service(sick="the model behind it is gone", says_well=True)

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "one", "two")
        await say(runtime, "three", chat="other")
        await world.pass_time(25 * 3_600)
        assert states(await all_deliveries(runtime)) == {"scheduled": 3}
        service.sick = ""
        await world.pass_time(120)
        assert states(await all_deliveries(runtime)) == {"delivered": 3}

    world.run(scenario())
