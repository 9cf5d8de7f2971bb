"""Extraction: reads the messages of an ended epoch, and writes the fitting part of a model's answer to memory."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from holdfast.kernel.ids import Principal
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NoteChange, Target, stream_of
from holdfast.memory.notes_sql import apply_memory, hold_stream, read_memory
from holdfast.memory.visibility import scope_of_turns
from holdfast.sessions.extraction import Bounds, Excerpt, ExtractionResult, Notes, Proposal, judge
from holdfast.sessions.finalisation import Finalisation, FinishEvent
from holdfast.sessions.finalisation_sql import given_back, hold_end, read_end, write_end
from holdfast.store.agent_lock_sql import share_agent
from holdfast.store.script import Script, one, rows, verb
from holdfast.turns.journal_sql import ENTRY, chain, entry_of, undos

RANGE = f"""
select {ENTRY} from entry
 where session = :session and seq >= :from_seq and seq <= :through_seq order by seq desc limit :limit"""
RATIO = "select token_ratio from session where id = :session"
SPOKEN = """
select distinct place, principal from turn
 where session = :session and last_seq >= :from_seq and first_seq <= :through_seq"""
NEWEST_NOTE = "select at from memory_op where stream = :stream and seq = :seq"
GONE_SINCE = """
select target, old_text from memory_op where stream = :stream and op <> 'add' and at > :since"""
EXCERPT_ENTRIES_MAX = 4_000


@verb
def read_excerpt(held: Finalisation) -> Script[Excerpt]:
    found = yield from rows(
        RANGE,
        session=held.session,
        from_seq=held.from_seq,
        through_seq=held.through_seq,
        limit=EXCERPT_ENTRIES_MAX,
    )
    entries = [entry_of(held.session, row) for row in reversed(found)]
    # A later undo counts too: undone messages are not remembered.
    later = yield from undos((yield from chain(held.session))[:1], after=held.through_seq)
    (ratio,) = (yield from one(RATIO, session=held.session)) or (1.0,)
    earlier = max(0, held.through_seq - held.from_seq + 1 - len(found))
    scope, _ = yield from _origin(held)
    return Excerpt(entries=(*entries, *later), scope=scope, earlier=earlier, token_ratio=ratio)


def _origin(held: Finalisation) -> Script[tuple[str, Principal]]:
    """The owner of notes from the range, and its speaker; no principal if there were several speakers."""
    spoken = yield from rows(SPOKEN, session=held.session, from_seq=held.from_seq, through_seq=held.through_seq)
    turns = [(place, principal) for place, principal in spoken] or [("", str(held.principal))]
    speakers = {principal for _, principal in turns}
    return scope_of_turns(turns, held.session), Principal(speakers.pop() if len(speakers) == 1 else "")


@verb
def apply_finalisation(held: Finalisation, proposals: Sequence[Proposal], notes: Notes) -> Script[Finalisation]:
    """Write the fitting proposals to memory and record the step, in one transaction. The result keeps the others."""
    yield from share_agent(held.agent)  # a notes stream may be created
    current = yield from hold_end(held)
    if current.step is not held.step:
        return current
    if current.owner is None:
        return given_back(current, FinishEvent.APPLIED)
    scope, speaker = yield from _origin(held)
    result = yield from _apply_to(replace(held, principal=speaker), scope, proposals, notes)
    yield from write_end(current, FinishEvent.APPLIED, result=msgspec.json.encode(result))
    return (yield from read_end(held.session, held.epoch))


def _apply_to(held: Finalisation, subject: str, mine: Sequence[Proposal], notes: Notes) -> Script[ExtractionResult]:
    """Write at most one batch. If memory refuses a proposal, the rest are judged again without it."""
    stream = stream_of(held.agent, subject)
    yield from hold_stream(stream, held.agent, subject)  # no note is written or removed while this is judged
    memory = yield from read_memory(held.agent, subject)
    newest = yield from one(NEWEST_NOTE, stream=stream, seq=memory.head)
    is_stale = newest is not None and newest[0] > held.said_at
    gone = (yield from rows(GONE_SINCE, stream=stream, since=held.said_at)) if is_stale else []
    bounds = Bounds(
        capacity=notes.capacity,
        said_at=held.said_at,
        gone=frozenset((Target(target), bytes(text).decode()) for target, text in gone),
    )
    refused: dict[int, str] = {}
    while True:
        judged = judge(mine, memory, bounds, refused)
        if not judged.changes:
            return ExtractionResult(unfit=judged.unfit)
        outcome = yield from apply_memory(_batch(held, subject, judged.changes, notes, is_stale=is_stale))
        if isinstance(outcome, Applied):
            return ExtractionResult(outcome.seqs, judged.unfit)
        refused[judged.of[outcome.position]] = outcome.code


def _batch(
    held: Finalisation, subject: str, changes: tuple[NoteChange, ...], notes: Notes, *, is_stale: bool
) -> MemoryBatch:
    return MemoryBatch(
        agent=held.agent,
        subject=subject,
        origin=held.origin,
        changes=changes,
        by="extraction",
        principal=held.principal,
        capacity=notes.capacity,
        policies=notes.policies,
        add_only=is_stale and all(change.verb is MemoryVerb.ADD for change in changes),
    )
