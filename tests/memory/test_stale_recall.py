"""The first incident, second half: a recall made for one conversation is never shown in another.

There, one slot held the newest recall, for any turn. Here a recall is kept under what it was made for (the
session, its epoch, its last entry, the person) and is worth nothing under anything else. Each lookup of these tests
finds a canary with its number, so a context shows where its memories came from.
"""

import re

import pytest

from holdfast.memory.provider import Configured
from holdfast.memory.recall import RecallPolicy
from holdfast.runtime.runtime import Runtime
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import Gate, post
from tests.support.memory_provider import Service
from tests.support.memory_world import World, say, shelf

SKIPPED = "(Memory is incomplete: shelf did not answer within 1500 ms.)"
SWITCHES = ["/new", "/reset", "/branch", "/resume home"]


def prefetching(service: Service) -> Configured:
    return shelf(service, recalls=True, prefetches=True)


def canaries(world: World, after: int = 0) -> list[list[int]]:
    """Which lookups each question to the model shows, from the question `after` on."""
    return [[int(n) for n in re.findall(r"canary-(\d+)-", context)] for context in world.contexts(after)]


async def recalled(runtime: Runtime) -> list[str]:
    """Everything of memory that any session of the chat has in its journal."""
    sessions = await runtime.sessions(chat="c")
    views = [view for session in sessions for view in await runtime.history(session.id)]
    return [view.entry.text for view in views if view.entry.kind == "recall"]


def test_what_was_asked_ahead_in_time_is_shown_in_the_turn_it_was_asked_for(world: World):
    """Otherwise the tests below would be true of a runtime that never shows anything."""
    service = Service(recall_script=[None, None, Gate()])

    async def scenario() -> None:
        runtime = await world.open(shelf=prefetching(service))
        await say(runtime, "one", "two")

    world.run(scenario())
    assert canaries(world) == [[1], [2]], "the second lookup was made ahead; the third never came back"


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("stubborn", [False, True], ids=["cancelled", "stubborn"])
def test_a_lookup_in_flight_at_a_switch_is_never_shown(world: World, switch: str, stubborn: bool):
    """Even by a provider that goes on when it is told to stop."""
    gate = Gate()
    service = Service(recall_script=[None, None, None, gate, None, None, Gate()], stubborn=stubborn)

    async def scenario() -> None:
        runtime = await world.open(shelf=prefetching(service))
        await say(runtime, "x", "/title home", "/new", "one")
        await (
            gate.arrival()
        )  # lookups 1 and 2 were for the first session, 3 for "one"; 4 was made ahead and stands here
        await say(runtime, switch, "two")
        await world.pass_time(1)
        gate.open()  # now the fourth would be the newest, and the seventh never comes
        await world.pass_time(60)
        await say(runtime, "three", switch, "four")
        assert not any("canary-4-" in text for text in await recalled(runtime))

    world.run(scenario())
    shown = canaries(world, after=2)
    assert shown[:2] == [[5], [6]], "each turn has memories, and they are its own"
    assert len(shown) == 3
    assert min(shown[2]) > 6


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_lookup_that_was_ready_and_unused_at_a_switch_is_dropped(world: World, switch: str):
    service = Service()

    async def scenario() -> int:
        runtime = await world.open(shelf=prefetching(service))
        await say(runtime, "x", "/title home", "/new", "one")
        await world.pass_time(1)
        ready = len(service.lookups)
        await say(runtime, switch, "two", "three", "/new", "four")
        return ready

    ready = world.run(scenario())
    assert ready == 4
    assert all(number > ready for numbers in canaries(world, after=2) for number in numbers)


def test_going_away_and_coming_back_does_not_bring_an_old_lookup_with_it(world: World):
    """After /branch the first session stays open: its id, its epoch and its last entry are what they were."""
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=prefetching(service))
        await say(runtime, "/new", "one", "/title home")
        await world.pass_time(1)
        await say(runtime, "/branch", "/resume home", "two")

    world.run(scenario())
    assert canaries(world) == [[1], [3]], (
        "the second was made ahead for the first session, and dropped when it was left"
    )


def test_an_answer_past_the_budget_is_dropped_and_the_turn_says_so(world: World):
    gate = Gate()
    service = Service(recall_script=[gate], stubborn=True)

    async def scenario() -> list[str]:
        runtime = await world.open(shelf=shelf(service, recalls=True))
        began = world.loop.time()
        await say(runtime, "one")
        assert world.loop.time() - began < 2, "the turn waited for its budget and no longer"
        gate.open()
        await world.pass_time(60)
        await say(runtime, "two", "/new", "three")
        return await recalled(runtime)

    texts = world.run(scenario())
    assert canaries(world) == [[], [2], [3]]
    assert SKIPPED in world.contexts()[0]
    assert not any("incomplete" in context for context in world.contexts(after=1)), "it is said in that turn only"
    assert SKIPPED in texts, "and kept, so that people can see what the model was told"


def test_a_dead_provider_is_said_to_have_failed_and_the_others_are_heard(world: World):
    dead, well = Service(away="connection refused"), Service()

    async def scenario() -> None:
        runtime = await world.open(
            dead=shelf(dead, recalls=True, name="dead"), well=shelf(well, recalls=True, name="well")
        )
        await say(runtime, "one")

    world.run(scenario())
    (context,) = world.contexts()
    assert "(Memory is incomplete: dead failed.)" in context
    assert canaries(world) == [[1]]
    assert "connection refused" not in context, "a provider's own words are not the model's business"


@pytest.mark.parametrize("between", ["/undo", "an observed remark", "another person"])
def test_what_was_asked_ahead_counts_only_while_nothing_else_was_said(world: World, between: str):
    gate = Gate()
    service = Service(recall_script=[None, None, None, gate])
    who = "ben" if between == "another person" else "ada"

    async def scenario() -> None:
        runtime = await world.open(shelf=prefetching(service))
        for text in ("one", "two"):
            await runtime.reply_to(await post(runtime, "g", text, type="group", sender="ada"))
        assert service.lookups[-1].text == "two", "the newest lookup is the one made ahead"
        if between == "/undo":
            await runtime.reply_to(await post(runtime, "g", "/undo", type="group", sender="ada"))
        elif between == "an observed remark":
            await post(runtime, "g", "by the way", type="group", sender="ben", addressed=False)
            await world.pass_time(1)
        gate.open()
        await world.pass_time(1)
        await runtime.reply_to(await post(runtime, "g", "three", type="group", sender=who))

    world.run(scenario())
    assert canaries(world)[-1] == [5], "what it was asked with was not what had been foreseen"


def test_a_person_in_a_group_is_not_shown_what_was_looked_up_for_another(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=prefetching(service))
        for who in ("ada", "ben", "ada"):
            await runtime.reply_to(await post(runtime, "g", f"I am {who}", type="group", sender=who))

    world.run(scenario())
    asked_by = {n: query.key.principal for n, query in enumerate(service.lookups, start=1)}
    turns = list(zip(("ada", "ben", "ada"), canaries(world), strict=True))
    assert all(asked_by[n] == who for who, numbers in turns for n in numbers)


@pytest.mark.parametrize("change", ["unlinked", "linked", "as before"])
def test_what_was_looked_up_for_somebody_who_was_more_people_then_is_not_shown(world: World, change: str):
    """The words of an account that was taken back are not its person's any more, however early they were asked for."""
    gate = Gate()
    service = Service(recall_script=[None, None, gate])

    async def scenario() -> None:
        runtime = await world.open(shelf=prefetching(service))
        if change != "linked":
            await runtime.access.link("discord:80351110224678912", "ada")
        await runtime.reply_to(await post(runtime, "c", "one", sender="ada"))
        await world.pass_time(1)
        if change == "unlinked":
            await runtime.access.unlink("discord:80351110224678912")
        elif change == "linked":
            await runtime.access.link("discord:80351110224678912", "ada")
        await runtime.reply_to(await post(runtime, "c", "two", sender="ada"))
        gate.open()

    world.run(scenario())
    kin = {"unlinked": [1, 1, 0], "linked": [0, 0, 1], "as before": [1, 1, 1]}
    assert [len(query.kin) for query in service.lookups[:3]] == kin[change]
    assert canaries(world) == [[1], [2] if change == "as before" else []]


def test_recall_that_is_turned_off_asks_no_provider(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(AgentPolicy(recall=RecallPolicy(enabled=False)), shelf=prefetching(service))
        await say(runtime, "one", "two")

    world.run(scenario())
    assert service.lookups == []
