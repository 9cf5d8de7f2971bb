"""Forgotten notes are not in the instructions of a session, even if they were being read when they were forgotten."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from holdfast.kernel.ids import AgentName, Instant, Principal, SessionId
from holdfast.memory.notes import AgentNotes, MemoryEntry, Target
from holdfast.memory.visibility import Audience, ShownNotes
from holdfast.turns.context import Context
from holdfast.turns.context_cache import Briefing
from holdfast.turns.policy import AgentPolicy

FERN, ADA = AgentName("fern"), Principal("ada")
READER = Audience(agent=FERN, principal=ADA, session="s")


def context(*, withdrawals=0, summaries=0):
    return Context(
        session=SessionId("s"),
        agent=FERN,
        summary=None,
        entries=(),
        committed_seq=0,
        last_seq=0,
        undo_count=0,
        summaries=summaries,
        token_ratio=1.0,
        open_turn=None,
        withdrawals=withdrawals,
    )


class Notes:
    """A keeper whose file is slow to read."""

    def __init__(self):
        self.texts = ["likes tea", "was born in May"]
        self.reading, self.read = asyncio.Event(), asyncio.Event()

    async def shown(self, audience):
        entries = [
            MemoryEntry(seq=n, target=Target.MEMORY, text=text, at=Instant(n), origin=f"o{n}", by="agent", place=n)
            for n, text in enumerate(self.texts, 1)
        ]
        return ShownNotes(AgentNotes(agent=audience.agent, subject=audience.own, entries=tuple(entries)))

    async def strangers(self, agent, access, principals):
        return frozenset()

    async def soul(self, agent):
        self.reading.set()
        await self.read.wait()


def told_by(notes):
    briefing = Briefing(cast("Any", notes))

    async def told(audience=READER, **more):
        brief = await briefing.read(AgentPolicy(instructions="Help."), context(**more), audience)
        assert brief.instructions == "Help."
        return brief.notes

    return briefing, told


async def test_notes_that_are_forgotten_while_they_are_read_are_read_again():
    notes = Notes()
    briefing, told = told_by(notes)
    first = asyncio.create_task(told())
    await notes.reading.wait()
    notes.texts.remove("was born in May")
    briefing.clear()
    notes.read.set()
    for text in (await first, await told()):
        assert "likes tea" in text
        assert "born" not in text


async def test_notes_stay_as_they_were_until_the_store_counts_a_withdrawal():
    notes = Notes()
    notes.read.set()
    _, told = told_by(notes)
    first = await told()
    notes.texts.remove("was born in May")
    assert await told() == first
    assert "born" not in await told(withdrawals=1)
    assert "born" not in await told(summaries=1)


@pytest.mark.parametrize("other", [{"principal": "bob"}, {"address": "agent:fern:telegram:group:g"}, {"session": "t"}])
async def test_no_audience_is_told_what_was_read_for_another(other):
    notes = Notes()
    notes.read.set()
    _, told = told_by(notes)
    await told()
    notes.texts = ["of somebody else"]
    assert "tea" not in await told(replace(READER, **other))
