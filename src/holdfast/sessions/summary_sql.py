"""Operations and summaries: compression as a compare-and-set beside the journal (D14)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.kernel.errors import SessionNotFound, SummaryStale
from holdfast.kernel.ids import NodeId, OperationId, SessionId
from holdfast.sessions.compression import Busy, Operation, Summary, SummaryDraft
from holdfast.store.script import Columns, Script, one, plain, rows, run, utf8, verb
from holdfast.turns.journal import Entry, Undone, estimate_tokens
from holdfast.turns.journal_sql import BranchLink, chain, undos


class SummarisedSession(NamedTuple):
    """The columns of a session that a summary is compared with."""

    committed_seq: int
    undo_count: int
    summaries: int
    state: str


class OpenOperation(NamedTuple):
    id: OperationId
    fence: int
    owned: bool  # whether its node is alive


SUMMARISED = Columns(SummarisedSession)
SESSION = f"select {SUMMARISED} from session where id = :session /*lock*/"
OPERATION = Columns(Operation, detail=("detail", msgspec.json.decode))
OPEN_OPERATION = Columns(OpenOperation, owned="exists (select 1 from node where node.id = operation.owner)")
OPEN = f"select {OPEN_OPERATION} from operation where session = :session and kind = :kind and ended_at is null"
BY_ID = f"select {OPERATION} from operation where id = :id"
HOLD_OPERATION = f"{BY_ID} /*lock*/"
NEW_OPERATION = f"""
insert into operation (id, kind, session, owner, fence, started_at)
values (:id, :kind, :session, :owner,
        1 + coalesce((select max(fence) from operation where session = :session and kind = :kind), 0), :now)
returning {OPERATION}"""
END = """
update operation set ended_at = :now, outcome = :outcome, detail = :detail
 where id = :id and fence = :fence and ended_at is null returning id"""
HEADS = """
select n, covers_through, head_seq from summary
 where session = :session and n <= :upto_n and length(body) > 0 order by n desc"""
SUMMARY = Columns(Summary, text=("body", utf8))
BY_NUMBER = f"select {SUMMARY} from summary where session = :session and n = :n"
NEWEST = f"""
select {SUMMARY} from summary
 where session = :session and n <= :upto_n and length(body) > 0 order by n desc limit 1"""
NEW_SUMMARY = f"""
insert into summary (session, n, base_n, covers_from, covers_through, head_seq, model, tokens, operation, at, body)
values (:session, :n, :base_n, :covers_from, :covers_through, :head_seq, :model, :tokens, :operation, :now, :body)
returning {SUMMARY}"""
COUNTED = "update session set summaries = :n where id = :session"


@verb
def begin_operation(operation: OperationId, kind: str, session: SessionId, node: NodeId) -> Script[Operation | Busy]:
    found = yield from SUMMARISED.one(SESSION, session=session)
    known = yield from OPERATION.one(BY_ID, id=operation)
    if known is not None:
        return known
    if found is None or found.state == "deleted":
        raise SessionNotFound(f"there is no session {session}", session=session)
    other = yield from OPEN_OPERATION.one(OPEN, session=session, kind=kind)
    if other is not None:
        if other.owned:
            return Busy(other.id)
        yield from run(END, id=other.id, fence=other.fence, outcome="abandoned", detail=None)
    (made,) = yield from OPERATION.rows(NEW_OPERATION, id=operation, kind=kind, session=session, owner=node)
    return made


@verb
def find_open_operation(session: SessionId, kind: str) -> Script[OperationId | None]:
    found = yield from OPEN_OPERATION.one(OPEN, session=session, kind=kind)
    return found.id if found is not None and found.owned else None


@verb
def commit_summary(operation: Operation, draft: SummaryDraft) -> Script[Summary]:
    session = operation.session
    found = yield from SUMMARISED.one(SESSION, session=session)
    # A reaper ends operations without the session's lock.
    known = yield from OPERATION.one(HOLD_OPERATION, id=operation.id)
    if found is None or known is None:
        raise SummaryStale(f"{session} or operation {operation.id} is gone", session=session)
    if known.ended_at is not None or known.fence != operation.fence:
        return (yield from _repeated(known))
    base = yield from newest_summary((yield from chain(session)))
    base_n, covered = (base.n, base.covers_through) if base else (0, 0)
    if (base_n, found.undo_count) != (draft.base_n, draft.undo_count) or found.state == "deleted":
        raise SummaryStale(f"{session} was undone or compressed meanwhile", session=session)
    if draft.covers_from != covered + 1 or not draft.covers_from <= draft.covers_through <= found.committed_seq:
        raise SummaryStale(f"{draft.covers_from}..{draft.covers_through} does not follow {covered}", session=session)
    n = found.summaries + 1
    (made,) = yield from SUMMARY.rows(
        NEW_SUMMARY,
        session=session,
        n=n,
        base_n=draft.base_n,
        covers_from=draft.covers_from,
        covers_through=draft.covers_through,
        head_seq=draft.head_seq,
        model=plain(draft.model),
        tokens=estimate_tokens(draft.text),
        operation=operation.id,
        body=draft.text.encode(),
    )
    yield from run(COUNTED, session=session, n=n)
    detail = {"summary": n, "covers_from": draft.covers_from, "covers_through": draft.covers_through}
    yield from end_operation(operation, "done", detail)
    return made


def _repeated(known: Operation) -> Script[Summary]:
    """The summary of an earlier call that was committed but whose result was lost."""
    if known.outcome == "done" and known.detail and "summary" in known.detail:
        made = yield from SUMMARY.one(BY_NUMBER, session=known.session, n=known.detail["summary"])
        if made is not None:
            return made
    raise SummaryStale(f"operation {known.id} ended as {known.outcome}", session=known.session)


@verb
def end_operation(operation: Operation, outcome: str, detail: Mapping[str, object]) -> Script[None]:
    body = msgspec.json.encode(detail)
    yield from one(END, id=operation.id, fence=operation.fence, outcome=outcome, detail=body)


def newest_summary(links: Sequence[BranchLink]) -> Script[Summary | None]:
    """The newest summary that is valid for this ancestry: no later undo reaches into the entries that it covers."""
    voiding = yield from undos(links)
    for link in links:
        if not voiding:
            newest = yield from SUMMARY.one(NEWEST, session=link.session, upto_n=link.upto_n)
            if newest is not None:
                return newest
            continue
        for n, covers_through, head_seq in (yield from rows(HEADS, session=link.session, upto_n=link.upto_n)):
            if not is_voided(covers_through, head_seq, voiding):
                return (yield from SUMMARY.one(BY_NUMBER, session=link.session, n=n))
    return None


def is_voided(covers_through: int, head_seq: int, voiding: Sequence[Entry]) -> bool:
    return any(
        undo.seq > head_seq and isinstance(undo.body, Undone) and undo.body.from_seq <= covers_through
        for undo in voiding
    )
