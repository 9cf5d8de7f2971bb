"""Extraction: reads the messages of an ended epoch, and writes the fitting part of a model's answer to memory."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from holdfast.kernel.ids import Instant, Principal
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.memory.notes import Applied, Capacity, MemoryBatch, MemoryVerb, Target, stream_of
from holdfast.memory.notes_sql import apply_memory, hold_stream, read_memory
from holdfast.memory.visibility import scope_of_turns
from holdfast.sessions.extraction import Bounds, Excerpt, ExtractionResult, Proposal, judge
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
def apply_finalisation(
    held: Finalisation, proposals: Sequence[Proposal], capacity: Capacity, policies: tuple[DeliveryPolicy, ...] = ()
) -> Script[Finalisation]:
    """Write the fitting proposals to memory and record the step, in one transaction. The result keeps the others."""
    yield from share_agent(held.agent)  # a notes stream may be created
    current = yield from hold_end(held)
    if current.step is not held.step:
        return current
    if current.owner is None:
        return given_back(current, FinishEvent.APPLIED)
    scope, speaker = yield from _origin(held)
    batch = MemoryBatch(
        agent=held.agent,
        subject=scope,
        origin=held.origin,
        changes=(),
        by="extraction",
        principal=speaker,
        capacity=capacity,
        policies=policies,
    )
    result = yield from _apply_to(batch, held.said_at, proposals)
    yield from write_end(current, FinishEvent.APPLIED, result=msgspec.json.encode(result))
    return (yield from read_end(held.session, held.epoch))


def _apply_to(batch: MemoryBatch, said_at: Instant, mine: Sequence[Proposal]) -> Script[ExtractionResult]:
    """Write the fitting proposals as one batch. If memory refuses one, the rest are judged again without it."""
    stream = stream_of(batch.agent, batch.subject)
    yield from hold_stream(stream, batch.agent, batch.subject)  # no note is written or removed while this is judged
    memory = yield from read_memory(batch.agent, batch.subject)
    newest = yield from one(NEWEST_NOTE, stream=stream, seq=memory.head)
    is_stale = newest is not None and newest[0] > said_at
    gone = (yield from rows(GONE_SINCE, stream=stream, since=said_at)) if is_stale else []
    bounds = Bounds(
        capacity=batch.capacity,
        said_at=said_at,
        gone=frozenset((Target(target), bytes(text).decode()) for target, text in gone),
    )
    refused: dict[int, str] = {}
    while True:
        judged = judge(mine, memory, bounds, refused)
        if not judged.changes:
            return ExtractionResult(unfit=judged.unfit)
        only_adds = all(change.verb is MemoryVerb.ADD for change in judged.changes)
        outcome = yield from apply_memory(replace(batch, changes=judged.changes, add_only=is_stale and only_adds))
        if isinstance(outcome, Applied):
            return ExtractionResult(outcome.seqs, judged.unfit)
        refused[judged.of[outcome.position]] = outcome.code
