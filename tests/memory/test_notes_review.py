"""Notes made in a group or by a stranger are listed with author, chat and time, and go away by author or by chat:
from the running conversation, the files and the index. What others noted, and the operator's notes, stay."""

import json
from dataclasses import replace

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.message import Accepted, Arrival
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_service import all_subjects
from holdfast.memory.notes_sql import read_memory
from holdfast.models.practice import PracticeModel
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AccessPolicy, AgentPolicy, Door
from tests.support.fakes import soon
from tests.support.memory_runtimes import settled

MAIN = AgentName("main")
CLUB = "agent:main:telegram:group:-100"
ACCESS = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN, allow=frozenset({"telegram:1"}))


class Heard(PracticeModel):
    def __init__(self):
        self.shown = ""

    async def ask(self, request):
        self.shown = "\n".join(one.content for one in request.messages)
        said = [
            replace(one, content=one.content.partition(": ")[2]) if ": use " in one.content else one
            for one in request.messages
        ]
        async for event in super().ask(replace(request, messages=tuple(said))):
            yield event


@pytest.fixture
def model():
    return Heard()


@pytest.fixture
async def runtime(tmp_path, model):
    policy = AgentPolicy(access=ACCESS, memory={"local": {}, "files": {}})
    async with await open_runtime(tmp_path, agents=make_agents(model=model, policy=policy)) as opened:
        yield opened


async def say(runtime, who, text, *, type="dm", chat=None):
    address = Address(agent=MAIN, channel="telegram", type=type, chat=chat or who.partition(":")[2])
    arrival = Arrival(
        address=address, event_id=runtime.ports.new_id("e"), principal=Principal(who), text=text, account="bot"
    )
    outcome = await runtime.gateway.accept(arrival)
    assert isinstance(outcome, Accepted), outcome
    return await soon(runtime.reply_to(outcome.message))


def note(word):
    return f"use memory {json.dumps({'action': 'add', 'content': f'The word is {word}.'})}"


async def filled(runtime):
    await say(runtime, "telegram:1", note("quince"))  # on the allowlist
    await say(runtime, "telegram:2", note("walnut"))  # let in by an open door
    await say(runtime, "telegram:2", note("medlar"), type="group", chat="-100")
    await say(runtime, "telegram:1", note("almond"), type="group", chat="-100")
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text="The word is teapot.")
    await runtime.apply_memory(MemoryBatch(agent=MAIN, subject="", origin="o", changes=(change,), by="user"))


def words(notes):
    return {one.entry.text.removeprefix("The word is ").rstrip(".") for one in notes}


async def held(runtime):
    found = set()
    for subject in await all_subjects(runtime.db, MAIN):
        entries = (await runtime.db.read(read_memory(MAIN, subject))).entries
        found |= {one.text.removeprefix("The word is ").rstrip(".") for one in entries}
    return found


async def test_notes_of_groups_and_strangers_are_listed_with_author_chat_and_time(runtime):
    await filled(runtime)
    found = await runtime.review_notes()
    assert words(found) == {"walnut", "medlar", "almond"}
    by_word = {one.entry.text: one for one in found}
    stranger, group = by_word["The word is walnut."], by_word["The word is medlar."]
    assert (stranger.entry.principal, stranger.chat, stranger.mark.value) == ("telegram:2", "", "by a stranger")
    assert (group.entry.principal, group.chat, group.mark.value) == ("telegram:2", CLUB, "made in a group")
    assert all(one.entry.at > 0 for one in found)


async def test_revoking_an_author_removes_only_their_notes_everywhere(runtime, model, tmp_path):
    await filled(runtime)
    await say(runtime, "telegram:2", "hello")
    assert "walnut" in model.shown
    done = await runtime.revoke_notes(author="telegram:2")
    assert (done.removed, done.unattributed) == (2, ())
    assert await held(runtime) == {"quince", "almond", "teapot"}
    await say(runtime, "telegram:2", "good morning")
    shown = model.shown.partition("</notes>")[0]
    assert "teapot" in shown
    assert "walnut" not in shown, "the running session is told the notes anew"
    await settled(runtime)
    files = "".join(path.read_text() for path in (tmp_path / "agents").glob("**/*.md"))
    assert "quince" in files
    assert not any(word in files for word in ("walnut", "medlar"))
    kept = await runtime.recall("word", sender="telegram:2")
    assert not any("walnut" in one.text for one in kept.memories if one.scope is not None)


async def test_revoking_a_chat_removes_what_was_made_in_it(runtime):
    await filled(runtime)
    assert (await runtime.revoke_notes(chat=CLUB)).removed == 2
    assert await held(runtime) == {"quince", "walnut", "teapot"}
    assert (await runtime.revoke_notes(chat=CLUB)).removed == 0


@pytest.mark.parametrize("wish", [{}, {"author": "telegram:2", "chat": CLUB}])
async def test_revoking_needs_an_author_or_a_chat(runtime, wish):
    await filled(runtime)
    with pytest.raises(InvalidInput, match="name an author or a chat"):
        await runtime.revoke_notes(**wish)
    assert len(await held(runtime)) == 5
