"""Operations and summaries: compression as a compare-and-set beside the journal (D14)."""

from collections.abc import Sequence

import msgspec

from holdfast.kernel.errors import SessionNotFound, SummaryStale
from holdfast.kernel.ids import Instant, NodeId, OperationId, SessionId
from holdfast.sessions.compression import Busy, Operation, Summary, SummaryDraft
from holdfast.store.script import Row, Script, one, plain, rows, run, verb
from holdfast.turns.journal import Entry, Undone, estimate_tokens
from holdfast.turns.journal_sql import BranchLink, chain, undos

SESSION = "select committed_seq, undo_count, summaries, state from session where id = :session /*lock*/"
OPERATION_FIELDS = "id, kind, session, owner, fence, started_at, ended_at, outcome, detail"
OPEN = f"""
select {OPERATION_FIELDS}, exists (select 1 from node where node.id = operation.owner)
  from operation where session = :session and kind = :kind and ended_at is null"""
BY_ID = f"select {OPERATION_FIELDS} from operation where id = :id"
HOLD_OPERATION = f"{BY_ID} /*lock*/"
NEW_OPERATION = """
insert into operation (id, kind, session, owner, fence, started_at)
values (:id, :kind, :session, :owner,
        1 + coalesce((select max(fence) from operation where session = :session and kind = :kind), 0), :now)"""
END = """
update operation set ended_at = :now, outcome = :outcome, detail = :detail
 where id = :id and fence = :fence and ended_at is null returning id"""
HEADS = """
select n, covers_through, head_seq from summary
 where session = :session and n <= :upto_n and length(body) > 0 order by n desc"""
SUMMARY_FIELDS = "session, n, base_n, covers_from, covers_through, head_seq, model, tokens, operation, at, body"
SUMMARY = f"select {SUMMARY_FIELDS} from summary where session = :session and n = :n"
NEWEST = f"""
select {SUMMARY_FIELDS} from summary
 where session = :session and n <= :upto_n and length(body) > 0 order by n desc limit 1"""
NEW_SUMMARY = """
insert into summary (session, n, base_n, covers_from, covers_through, head_seq, model, tokens, operation, at, body)
values (:session, :n, :base_n, :covers_from, :covers_through, :head_seq, :model, :tokens, :operation, :now, :body)"""
COUNTED = "update session set summaries = :n where id = :session"


@verb
def begin_operation(operation: OperationId, kind: str, session: SessionId, node: NodeId) -> Script[Operation | Busy]:
    found = yield from one(SESSION, session=session)
    known = yield from one(BY_ID, id=operation)
    if known is not None:
        return operation_of(known)
    if found is None or found[3] == "deleted":
        raise SessionNotFound(f"there is no session {session}", session=session)
    row = yield from one(OPEN, session=session, kind=kind)
    if row is not None:
        if row[-1]:
            return Busy(OperationId(row[0]))
        yield from run(END, id=row[0], fence=row[4], outcome="abandoned", detail=None)
    yield from run(NEW_OPERATION, id=operation, kind=kind, session=session, owner=node)
    made = yield from one(BY_ID, id=operation)
    assert made is not None  # noqa: S101 - written by the statement before
    return operation_of(made)


@verb
def find_open_operation(session: SessionId, kind: str) -> Script[OperationId | None]:
    row = yield from one(OPEN, session=session, kind=kind)
    return OperationId(row[0]) if row is not None and row[-1] else None


@verb
def commit_summary(operation: Operation, draft: SummaryDraft) -> Script[Summary]:
    session = operation.session
    row = yield from one(SESSION, session=session)
    known = yield from one(HOLD_OPERATION, id=operation.id)  # a reaper ends operations without the session's lock
    if row is None or known is None:
        raise SummaryStale(f"{session} or operation {operation.id} is gone", session=session)
    if known[6] is not None or known[4] != operation.fence:
        return (yield from _repeated(operation, known))
    committed_seq, undo_count, count, state = row
    base = yield from newest_summary((yield from chain(session)))
    base_n, covered = (base.n, base.covers_through) if base else (0, 0)
    if (base_n, undo_count) != (draft.base_n, draft.undo_count) or state == "deleted":
        raise SummaryStale(f"{session} was undone or compressed meanwhile", session=session)
    if draft.covers_from != covered + 1 or not draft.covers_from <= draft.covers_through <= committed_seq:
        raise SummaryStale(f"{draft.covers_from}..{draft.covers_through} does not follow {covered}", session=session)
    n = count + 1
    yield from run(
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
    made = yield from one(SUMMARY, session=session, n=n)
    assert made is not None  # noqa: S101 - written above
    return summary_of(made)


def _repeated(operation: Operation, known: Row) -> Script[Summary]:
    """The summary of an earlier call that was committed but whose result was lost."""
    detail = msgspec.json.decode(bytes(known[8])) if known[8] else {}
    if known[7] == "done" and "summary" in detail:
        row = yield from one(SUMMARY, session=operation.session, n=detail["summary"])
        if row is not None:
            return summary_of(row)
    raise SummaryStale(f"operation {operation.id} ended as {known[7]}", session=operation.session)


@verb
def end_operation(operation: Operation, outcome: str, detail: dict[str, object]) -> Script[None]:
    body = msgspec.json.encode(detail)
    yield from one(END, id=operation.id, fence=operation.fence, outcome=outcome, detail=body)


def newest_summary(links: Sequence[BranchLink]) -> Script[Summary | None]:
    """The newest summary that is valid for this ancestry: no later undo reaches into the entries that it covers."""
    voiding = yield from undos(links)
    for link in links:
        if not voiding:
            row = yield from one(NEWEST, session=link.session, upto_n=link.upto_n)
            if row is not None:
                return summary_of(row)
            continue
        for n, covers_through, head_seq in (yield from rows(HEADS, session=link.session, upto_n=link.upto_n)):
            if not is_voided(covers_through, head_seq, voiding):
                row = yield from one(SUMMARY, session=link.session, n=n)
                return summary_of(row) if row else None
    return None


def is_voided(covers_through: int, head_seq: int, voiding: Sequence[Entry]) -> bool:
    return any(
        undo.seq > head_seq and isinstance(undo.body, Undone) and undo.body.from_seq <= covers_through
        for undo in voiding
    )


def operation_of(row: Row) -> Operation:
    return Operation(
        id=OperationId(row[0]),
        kind=row[1],
        session=SessionId(row[2]),
        owner=row[3],
        fence=row[4],
        started_at=Instant(row[5]),
        ended_at=None if row[6] is None else Instant(row[6]),
        outcome=row[7],
        detail=msgspec.json.decode(bytes(row[8])) if row[8] else None,
    )


def summary_of(row: Row) -> Summary:
    return Summary(
        session=SessionId(row[0]),
        n=row[1],
        base_n=row[2],
        covers_from=row[3],
        covers_through=row[4],
        head_seq=row[5],
        model=row[6],
        tokens=row[7],
        operation=OperationId(row[8]),
        at=Instant(row[9]),
        text=bytes(row[10]).decode(),
    )
