"""What one process forgets or unlinks is in no later prompt of another process on the same store.

The instructions of a session are held in RAM; here nothing clears it, so only the store can say that they are stale.
"""

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.message import Arrival
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.visibility import chat_scope
from holdfast.runtime.app import make_agents, open_runtime
from tests.support.fakes import ScriptedModel

MAIN = AgentName("main")
CLUB = Address(agent=MAIN, channel="telegram", type="group", chat="club")


async def note(runtime, text, subject, who):
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=text)
    batch = MemoryBatch(agent=MAIN, subject=subject, origin=text, changes=(change,), principal=Principal(who))
    await runtime.apply_memory(batch)


@pytest.fixture
async def processes(tmp_path, monkeypatch):
    """The model of the process that serves, that process, and one beside it."""
    model = ScriptedModel()
    async with await open_runtime(tmp_path, agents=make_agents(model=model)) as serving:
        monkeypatch.setattr(serving._briefing, "clear", lambda: None)
        async with await open_runtime(tmp_path, serve=False) as other:
            yield model, serving, other


async def test_a_forgotten_note_is_not_in_another_processs_next_prompt(processes):
    model, serving, other = processes
    await note(serving, "Ada keeps the keys.", chat_scope(str(CLUB)), "ada")
    await note(serving, "Meets on Fridays.", chat_scope(str(CLUB)), "bob")
    for n, text in enumerate(("hello", "again")):
        if n:
            await other.forget(person="ada")
        arrival = Arrival(address=CLUB, event_id=f"e{n}", principal=Principal("bob"), text=text, account="bot")
        accepted = await serving.gateway.accept(arrival)
        await serving.reply_to(accepted.message)
    first, second = (messages[0].content for messages in model.requests)
    assert "Ada keeps the keys." in first
    assert "Ada keeps the keys." not in second
    assert "Meets on Fridays." in second


async def test_an_account_that_another_process_unlinks_is_parted_at_once(processes):
    model, serving, other = processes
    await note(serving, "Has a cat.", "ada", "ada")
    await note(serving, "Has a dog.", "telegram:2", "telegram:2")
    await other.access.link("telegram:2", "ada")
    await serving.ask("desk", "hello", sender="ada")
    await other.access.unlink("telegram:2")
    await serving.ask("desk", "again", sender="ada")
    first, second = (messages[0].content for messages in model.requests)
    assert ("Has a cat." in first, "Has a dog." in first) == (True, True)
    assert ("Has a cat." in second, "Has a dog." in second) == (True, False)
