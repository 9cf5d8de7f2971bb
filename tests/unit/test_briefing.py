"""The promise: what was forgotten is not in what a session is told first, also where it was being read meanwhile."""

import asyncio
from typing import Any, cast

from holdfast.core.ids import AgentName, Instant, Principal, SessionId
from holdfast.core.memory import Memory, MemoryEntry, NotesPolicy, Target
from holdfast.loops.keeper import Briefing

FERN, ADA = AgentName("fern"), Principal("ada")


class Notes:
    """A keeper whose file is slow to read."""

    def __init__(self):
        self.texts = ["likes tea", "was born in May"]
        self.reading, self.read = asyncio.Event(), asyncio.Event()

    async def memory(self, agent, subject):
        entries = [
            MemoryEntry(seq=n, target=Target.MEMORY, text=text, at=Instant(n), origin=f"o{n}", by="agent", place=n)
            for n, text in enumerate(self.texts, 1)
        ]
        return Memory(agent=agent, subject=subject, entries=tuple(entries), head=len(entries))

    async def soul(self, agent):
        self.reading.set()
        await self.read.wait()


async def test_notes_that_are_forgotten_while_they_are_read_are_read_again():
    notes = Notes()
    briefing = Briefing(cast("Any", notes))

    def told():
        return briefing.instructions("Help.", NotesPolicy(), agent=FERN, session=SessionId("s"), summaries=0, who=ADA)

    first = asyncio.create_task(told())
    await notes.reading.wait()
    notes.texts.remove("was born in May")
    briefing.clear()
    notes.read.set()
    for text in (await first, await told()):
        assert "likes tea" in text
        assert "born" not in text
