"""The first incident: turns that wait for their batch go out at every switch, as what they were when they were said.

There, a switch of the session emptied the buffer; the repair sent it beside what was queued, and a later one sent it
twice. Here nothing waits in RAM: what is pending is what lies behind a cursor, and the transaction that leaves a
session schedules it, at the end of its lane.

Rules: R1.
"""

import pytest

from holdfast.memory.delivery import PerAddress
from holdfast.turns.policy import AgentPolicy, ExpiryPolicy
from tests.support.fakes import Gate, the_session
from tests.support.memory_provider import Service, units
from tests.support.memory_world import World, all_deliveries, say, shelf

SWITCHES = ["/new", "/reset", "/branch", "/resume home"]


@pytest.mark.parametrize("switch", SWITCHES)
def test_buffered_turns_go_out_under_the_session_and_lineage_they_were_said_in(world: World, switch: str):
    """The lane is the chat's, so that one order holds over the switch; the provider is busy with what was before."""
    service = Service(hold=Gate())

    async def scenario() -> tuple[str, str, str]:
        runtime = await world.open(shelf=shelf(service, naming=PerAddress(), every_turns=3))
        await say(runtime, "at home", "/title home")
        home = await the_session(runtime)
        await say(runtime, "/branch")
        old = await the_session(runtime)
        assert service.hold is not None
        await service.hold.arrival()  # the unit of the first session is on its way, and stays there
        await say(runtime, "one", "two", "three", "four", "five", switch, "six", "seven", "eight")
        await say(runtime, "elsewhere", "/new", chat="other")
        await world.pass_time(10)
        assert service.words() == ["at home", "elsewhere"], "whatever comes later in the chat waits; others do not"
        service.hold.open()
        await world.pass_time(60)
        return home, old, await the_session(runtime)

    home, old, new = world.run(scenario())
    assert [unit for unit in units(service) if unit[1] != ["elsewhere"]] == [
        (home, ["at home"]),
        (old, ["one", "two", "three"]),
        (old, ["four", "five"]),
        (new, ["six", "seven", "eight"]),
    ]
    next_parent = old if switch == "/branch" else None
    lineage = {home: None, old: home, new: next_parent if new != home else None}
    assert all(parcel.naming.parent == lineage.get(parcel.session) for parcel in service.kept)
    assert service.crowded == [], "a lane carries one call at a time"
    assert len({parcel.id for parcel in service.kept}) == len(service.kept) == 5
    assert all(f":{parcel.session}:" in parcel.id for parcel in service.kept), "a document is named for its session"


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_sends_what_is_left_and_not_what_was_sent(world: World, switch: str):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, every_turns=2))
        await say(runtime, "x", "/title home", "/new", "one", "two", "three", switch)
        await world.pass_time(60)
        await say(runtime, "/new", "/new")
        await world.pass_time(60)

    world.run(scenario())
    assert sorted(service.words()) == ["one", "three", "two", "x"]
    assert [text for text in service.words() if text != "x"] == ["one", "two", "three"]


def test_a_compression_is_no_boundary_and_the_batch_goes_on_filling(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "one", "two", "/compress")
        await world.pass_time(60)
        assert service.calls == []
        await say(runtime, "three", "four", "/compress", "/new")
        await world.pass_time(60)

    world.run(scenario())
    assert [words for _, words in units(service)] == [["one", "two", "three"], ["four"]]
    assert len({session for session, _ in units(service)}) == 1


def test_an_expiry_sends_what_is_left_under_the_session_that_expired(world: World):
    service = Service()
    expiring = AgentPolicy(expiry=ExpiryPolicy(idle_minutes=5))

    async def scenario() -> str:
        runtime = await world.open(expiring, shelf=shelf(service, every_turns=3))
        await say(runtime, "one", "two", "three", "four")
        (old,) = await runtime.sessions(chat="c")
        await world.pass_time(120)
        assert service.words() == ["one", "two", "three"]
        await world.pass_time(600)
        assert service.words() == ["one", "two", "three", "four"]
        await say(runtime, "five", "/new")
        await world.pass_time(60)
        return old.id

    old = world.run(scenario())
    (*before, (new, last)) = units(service)
    assert before == [(old, ["one", "two", "three"]), (old, ["four"])]
    assert (new != old, last) == (True, ["five"])


def test_turns_that_were_pending_when_the_process_was_killed_go_out_at_the_next_switch(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "one", "two")
        world.kill()
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "/new", "next")
        await world.pass_time(60)

    world.run(scenario())
    assert [words for _, words in units(service)] == [["one", "two"]]


def test_turns_undone_while_they_were_pending_are_never_told(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "one", "regretted", "/undo", "/new")
        await world.pass_time(60)

    world.run(scenario())
    assert service.words() == ["one"]


# --- an empty buffer writes nothing ----------------------------------------------------------------


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_with_nothing_pending_writes_nothing(world: World, switch: str):
    service = Service()

    async def scenario() -> tuple[int, int]:
        runtime = await world.open(shelf=shelf(service, every_turns=2))
        await say(runtime, "x", "/title home", "/new", "one", "two")
        await world.pass_time(60)
        before = len(await all_deliveries(runtime)), len(service.calls)
        await say(runtime, switch)
        await world.pass_time(60)
        assert (len(await all_deliveries(runtime)), len(service.calls)) == before
        return before

    assert world.run(scenario()) == (2, 2)


def test_switches_without_a_word_said_reach_no_provider_at_all(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "/new", "/new", "/reset", "/branch", "/undo", "/compress", "/new")
        await world.pass_time(60)
        assert await all_deliveries(runtime) == []

    world.run(scenario())
    assert service.calls == []
    assert world.cursors() == {}


def test_a_buffer_of_which_everything_was_undone_writes_nothing(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "one", "two", "/undo 2", "/new")
        await world.pass_time(60)
        assert await all_deliveries(runtime) == []

    world.run(scenario())
    assert service.calls == []
