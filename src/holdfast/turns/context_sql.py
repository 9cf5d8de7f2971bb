"""read_context: the newest valid summary and everything after it.

The cost depends on the entries after the summary, never on the length of the history. A cached context is brought up to
date instead of read again; each use checks it against the session's row.
"""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.kernel.errors import SessionNotFound
from holdfast.kernel.ids import SessionId
from holdfast.sessions.summary_sql import newest_summary
from holdfast.store.script import Columns, Query, Row, Script, together, verb
from holdfast.turns.context import Context, ContextMemo
from holdfast.turns.journal import Entry, Undone, effective
from holdfast.turns.journal_sql import chain, entries, entry_of, page_query

CONTEXT = Columns(
    Context,
    "session",
    without=("session", "summary", "entries", "memo"),
    address="mailbox.address",
    shared="mailbox.shared",
    withdrawals=("(select sum(n) from withdrawal where withdrawal.agent in (session.agent, ''))", int),
)
SESSION = f"""
select {CONTEXT}, session.state
  from session left join mailbox on mailbox.id = session.mailbox where session.id = :session"""


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
    if row is None or row[-1] == "deleted":
        raise SessionNotFound(f"there is no session {session}", session=session)
    now = CONTEXT.value(row[:-1], session=session, summary=None, entries=())
    if known is not None and _grown_only(known, now):
        # Only the session itself can have grown; inherited entries cannot.
        return _extended(known, now, [entry_of(session, one) for one in found[1]])
    return (yield from _whole(now))


def context_after(known: Context | None, now: Context, appended: Sequence[Entry]) -> Script[Context]:
    """The context of a session to which these entries were just appended. `now` is the session after that."""
    has_undo = any(isinstance(entry.body, Undone) for entry in appended)
    if (
        known is not None
        and not has_undo
        and known.last_seq + len(appended) == now.last_seq
        and _grown_only(known, now)
    ):
        return _extended(known, now, appended)
    return (yield from _whole(now))


def _grown_only(known: Context, now: Context) -> bool:
    """Whether every entry of a cached context is still valid.

    A forgetting blanks recalls in every session of the agent, and counts as a withdrawal.
    """
    before = known.undo_count, known.summaries, known.withdrawals
    return before == (now.undo_count, now.summaries, now.withdrawals) and known.last_seq <= now.last_seq


def _extended(known: Context, now: Context, fresh: Sequence[Entry]) -> Context:
    tail, memo = known.entries, known.memo
    if fresh:
        tail = (*tail, *fresh)
        memo = ContextMemo(tail, memo)
    return replace(now, summary=known.summary, entries=tail, memo=memo)


def _whole(now: Context) -> Script[Context]:
    links = yield from chain(now.session)
    summary = yield from newest_summary(links)
    tail = yield from entries(links, after=summary.covers_through if summary else 0)
    return replace(now, summary=summary, entries=tuple(effective(tail)))
