"""The third incident: a temporary run makes no provider session and tells no provider what was said in it.

There, each agent that was made for a compression or a review opened a session of its own at the provider, and nothing
was ever written to it. Here a run whose purpose is not conversation has no cursor, so there is nothing to dispatch;
its notes in the agent's memory are delivered like all others.
"""

import pytest

from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.session import Purpose
from holdfast.turns.journal import AssistantSaid, UserSaid
from holdfast.turns.model import ModelTask
from holdfast.turns.turn import TurnRecord
from tests.support.fakes import ScriptedModel, echo, says
from tests.support.memory_provider import Service
from tests.support.memory_runtimes import open_with_honcho, settled
from tests.support.memory_world import World, all_deliveries, say, shelf

HERE = "agent:main:http:dm:c"
TEMPORARY = [purpose for purpose in Purpose if purpose is not Purpose.CONVERSATION]


async def run_aside(runtime: Runtime, purpose: Purpose, parent: SessionId | None, *, turns: int = 2) -> SessionId:
    """A run beside the conversation, as its caller passes it: with every provider's policy."""
    session = SessionId(f"ses_{purpose.value}")
    for n in range(turns):
        record = TurnRecord(
            session=session,
            agent="main",
            key=f"{purpose.value}:{n}",
            entries=(_said(f"secret of {purpose.value}"), AssistantSaid(text="done", model="m")),
            principal=Principal("user"),
            place=HERE,
            purpose=purpose.value,
            parent=parent,
            policies=runtime._agents.policy("main").deliveries,
        )
        await runtime.record_turn(record)
    return session


def _said(text: str) -> UserSaid:
    return UserSaid(text=text, principal="user")


async def note(runtime: Runtime, origin: str, text: str) -> None:
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=text)
    batch = MemoryBatch(agent=AgentName("main"), subject="", origin=origin, changes=(change,), by="extraction")
    assert isinstance(await runtime.apply_memory(batch), Applied)


@pytest.mark.parametrize("purpose", TEMPORARY, ids=lambda purpose: purpose.value)
def test_a_temporary_run_has_no_cursor_and_reaches_no_provider(world: World, purpose: Purpose):
    service = Service()

    async def scenario() -> SessionId:
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "hello")
        await world.pass_time(60)
        (parent,) = await runtime.sessions(chat="c")
        session = await run_aside(runtime, purpose, parent.id)
        await world.pass_time(600)
        assert [one.stream for one in await all_deliveries(runtime)] == [parent.id]
        return session

    session = world.run(scenario())
    assert {stream for _, stream in world.cursors()} & {session} == set()
    assert service.words() == ["hello"]
    assert len(service.calls) == 1


@pytest.mark.parametrize("purpose", TEMPORARY, ids=lambda purpose: purpose.value)
def test_what_a_temporary_run_keeps_goes_to_the_memory_of_its_agent(world: World, purpose: Purpose):
    """And the parent's own turns, pending all the while, go out under the parent."""
    service = Service()

    async def scenario() -> SessionId:
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "one", "two")
        (parent,) = await runtime.sessions(chat="c")
        session = await run_aside(runtime, purpose, parent.id)
        await note(runtime, f"{session}:1", "Ada has a cat")
        await world.pass_time(60)
        assert (service.notes, service.words()) == (["Ada has a cat"], [])
        await say(runtime, "/new")
        await world.pass_time(60)
        return parent.id

    parent = world.run(scenario())
    assert service.words() == ["one", "two"]
    told, turns = service.kept
    assert (told.place, turns.session) == ("memory:main:", parent)


def test_a_temporary_run_cannot_be_made_a_conversation_by_a_later_turn(world: World):
    """What a session is for is decided once, by the code that opens it."""
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service))
        session = await run_aside(runtime, Purpose.REVIEW, None, turns=1)
        record = TurnRecord(
            session=session,
            agent="main",
            key="late",
            entries=(_said("hello"), AssistantSaid(text="hi", model="m")),
            principal=Principal("user"),
            place=HERE,
            policies=runtime._agents.policy("main").deliveries,
        )
        await runtime.record_turn(record)
        await say(runtime, f"/resume {session}", "in the chat")
        await world.pass_time(60)

    world.run(scenario())
    assert service.words() == ["in the chat"]


def test_a_compression_reaches_no_provider(world: World):
    service = Service()

    async def scenario() -> None:
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "one", "two", "three")
        await world.pass_time(60)
        before = len(service.calls), world.cursors().keys()
        answer = await runtime.ask("c", "/compress")
        assert answer.startswith("Compressed entries")
        await world.pass_time(600)
        assert (len(service.calls), world.cursors().keys()) == before

    world.run(scenario())
    assert len(world.model.summaries_asked) == 1
    assert service.words() == ["one", "two", "three"]


def test_an_extraction_tells_the_providers_what_it_keeps_and_nothing_of_itself(world: World):
    service = Service()
    kept = '{"changes": [{"verb": "add", "target": "memory", "text": "Ada has a cat"}]}'
    world.model = ScriptedModel(
        otherwise=lambda asked: (says(kept) if asked.task is ModelTask.EXTRACT else echo)(asked)
    )

    async def scenario() -> SessionId:
        runtime = await world.open(shelf=shelf(service, every_turns=3))
        await say(runtime, "I have a cat")
        (session,) = await runtime.sessions(chat="c")
        await say(runtime, "/new")
        await world.pass_time(60)
        return session.id

    session = world.run(scenario())
    assert [request.task for request in world.model.asked].count(ModelTask.EXTRACT) == 1
    assert (service.words(), service.notes) == (["I have a cat"], ["Ada has a cat"])
    assert {stream for _, stream in world.cursors()} == {session, "memory:main:c"}


async def test_temporary_runs_leave_no_empty_session_at_honcho(server, tmp_path):
    async with await open_with_honcho(server, tmp_path) as runtime:
        for purpose in TEMPORARY:
            session = await run_aside(runtime, purpose, None)
            await note(runtime, f"{session}:1", f"kept by {purpose.value}")
        await settled(runtime)
    assert server.sessions() == []
    assert server.made_empty == []
    assert server.messages() == []
    kept = sorted(row["content"] for row in server.conclusions())
    assert kept == sorted(f"kept by {purpose.value}" for purpose in TEMPORARY)


async def test_a_chat_keeps_one_honcho_session_across_new_and_compression_and_restart(server, tmp_path):
    async with await open_with_honcho(server, tmp_path) as runtime:
        await say(runtime, "one", "/new", "two", "/compress")
        await settled(runtime)
    async with await open_with_honcho(server, tmp_path) as runtime:
        await say(runtime, "three")
        await settled(runtime)
    (only,) = server.sessions()
    assert [row["content"] for row in server.messages(only)][::2] == ["one", "two", "three"]
    assert server.made_empty == []
