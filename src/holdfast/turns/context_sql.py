"""read_context: the newest valid summary and everything after it.

The cost depends on the entries after the summary, never on the length of the history. A cached context is brought up to
date instead of read again; each use checks it against the session's row.
"""

from collections.abc import Sequence

from holdfast.kernel.errors import SessionNotFound
from holdfast.kernel.ids import AgentName, SessionId
from holdfast.sessions.compression import Summary
from holdfast.sessions.summary_sql import newest_summary
from holdfast.store.script import Query, Row, Script, together, verb
from holdfast.turns.context import Context, ContextMemo
from holdfast.turns.journal import Entry, Undone, effective
from holdfast.turns.journal_sql import chain, entries, entry_of, page_query

CONTEXT_COLUMNS = """
session.agent, session.last_seq, session.committed_seq, session.undo_count, session.summaries,
session.token_ratio, session.open_turn, session.state, mailbox.address,
coalesce((select sum(n) from withdrawal where withdrawal.agent in (session.agent, '')), 0), session.several,
coalesce(mailbox.shared, 0)"""
SESSION = f"""
select {CONTEXT_COLUMNS} from session left join mailbox on mailbox.id = session.mailbox where session.id = :session"""


@verb
def read_context(session: SessionId, known: Context | None = None) -> Script[Context]:
    found = yield from together(*context_queries(session, known))
    return (yield from context_of(session, known, found))


def context_queries(session: SessionId, known: Context | None) -> tuple[Query, ...]:
    """The queries whose rows `context_of` takes: the session, and what was appended to a cached context."""
    row = Query(SESSION, {"session": session})
    return (row,) if known is None else (row, page_query(session, after=known.last_seq))


def context_of(session: SessionId, known: Context | None, found: Sequence[list[Row]]) -> Script[Context]:
    """The context of a session. Only a context that is not cached, or no longer valid, is read from its summary on."""
    row = found[0][0] if found[0] else None
    if row is None or row[7] == "deleted":
        raise SessionNotFound(f"there is no session {session}", session=session)
    if known is not None and _grown_only(known, row):
        # Only the session itself can have grown; inherited entries cannot.
        return _brought_up_to_date(known, row, [entry_of(session, one) for one in found[1]])
    links = yield from chain(session)
    summary = yield from newest_summary(links)
    covered = summary.covers_through if summary else 0
    tail = yield from entries(links, after=covered)
    return _context(session, row, summary, tuple(effective(tail)))


def context_after(session: SessionId, known: Context | None, row: Row, appended: Sequence[Entry]) -> Script[Context]:
    """The context of a session to which these entries were just appended. `row` has the CONTEXT_COLUMNS after that."""
    has_undo = any(isinstance(entry.body, Undone) for entry in appended)
    if known is not None and not has_undo and known.last_seq + len(appended) == row[1] and _grown_only(known, row):
        return _brought_up_to_date(known, row, appended)
    return (yield from context_of(session, None, [[row]]))


def _grown_only(known: Context, row: Row) -> bool:
    """Whether every entry of a cached context is still valid.

    A forgetting blanks recalls in every session of the agent, and counts as a withdrawal.
    """
    unchanged = (known.undo_count, known.summaries, known.withdrawals) == (row[3], row[4], int(row[9]))
    return unchanged and bool(known.last_seq <= row[1])


def _brought_up_to_date(known: Context, row: Row, fresh: Sequence[Entry]) -> Context:
    tail, memo = known.entries, known.memo
    if fresh:
        tail = (*tail, *fresh)
        memo = ContextMemo(tail, memo)
    return _context(known.session, row, known.summary, tail, memo)


def _context(
    session: SessionId,
    row: Row,
    summary: Summary | None,
    tail: tuple[Entry, ...],
    memo: ContextMemo | None = None,
) -> Context:
    return Context(
        session=session,
        agent=AgentName(row[0]),
        summary=summary,
        entries=tail,
        committed_seq=row[2],
        last_seq=row[1],
        undo_count=row[3],
        summaries=row[4],
        token_ratio=row[5],
        open_turn=row[6],
        address=row[8] or "",
        withdrawals=int(row[9]),
        several=bool(row[10]),
        shared=bool(row[11]),
        memo=memo or ContextMemo(tail),
    )
