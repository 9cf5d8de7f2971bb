"""Listing the notes of all agents by their scope: how many there are, and when they were changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.memory.notes import MemoryOperation
from holdfast.memory.notes_sql import CHANGE
from holdfast.store.script import Columns, Script, verb


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNotes:
    """The notes of one scope of an agent. `head` counts every change."""

    agent: str
    subject: str
    head: int
    notes: int
    changed_at: Instant | None


LISTED = Columns(
    ListedNotes,
    "memory",
    notes="(select count(*) from memory_op where memory_op.stream = memory.stream and memory_op.live = 1)",
    changed_at="(select at from memory_op where memory_op.stream = memory.stream and memory_op.seq = memory.head)",
)
PAGE = f"""
select {LISTED} from memory
 where memory.head > 0 and (:agent = '' or memory.agent = :agent)
   and (:text = '' or memory.subject like :part escape '!')
   and (memory.agent, memory.subject) > (:after_agent, :after_subject)
 order by memory.agent, memory.subject limit :limit"""
FIRST = PAGE.replace("and (memory.agent, memory.subject) > (:after_agent, :after_subject)", "")
NEWEST = f"select {CHANGE} from memory_op where stream = :stream order by seq desc limit :limit"


@verb
def list_notes(
    *, agent: str = "", text: str = "", after: tuple[str, str] | None = None, limit: int = 100
) -> Script[Sequence[ListedNotes]]:
    """By agent and scope. `text` is a part of the scope; `after` is the agent and the scope of the last one before."""
    escaped = text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    wanted = {"agent": agent, "text": text, "part": f"%{escaped}%", "limit": limit}
    if after is None:
        return (yield from LISTED.rows(FIRST, **wanted))
    return (yield from LISTED.rows(PAGE, after_agent=after[0], after_subject=after[1], **wanted))


@verb
def list_newest_changes(stream: str, *, limit: int = 200) -> Script[Sequence[MemoryOperation]]:
    """The changes of one stream of notes, newest first."""
    return (yield from CHANGE.rows(NEWEST, stream=stream, limit=limit))
