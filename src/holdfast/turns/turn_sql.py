"""Turn verbs: the holder of a claim reads, resumes, steps and commits an open turn.

The fence: every write of a worker checks its claim here, inside its transaction. `hold` locks the mailbox row until
commit and compares the claim with it. A plain select of the fence would not suffice: a newer claim could be taken
between the select and the commit.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as replace_body

from holdfast.inbox.agent_chain import loaded
from holdfast.inbox.mailbox import Claim
from holdfast.kernel.errors import ClaimLost, InvariantBroken
from holdfast.kernel.ids import ApprovalId, Instant, MessageId, SessionId
from holdfast.memory.cursor_sql import marks_queries, schedule, span_of
from holdfast.memory.delivery import CallerDirectory, NamingInputs
from holdfast.outbox.reply_sql import insert_reply, send_messages
from holdfast.store.script import Columns, Query, Row, Script, one, plain, rows, run, together, verb
from holdfast.turns import approval_sql
from holdfast.turns.activity_sql import record_activities, record_resumption
from holdfast.turns.context import calibrate
from holdfast.turns.journal import AnyBody, Recalled
from holdfast.turns.journal_sql import append
from holdfast.turns.turn import (
    CLOSED,
    MESSAGE_STATES,
    Committed,
    Phase,
    Step,
    Turn,
    TurnCommit,
    TurnEvent,
    advance,
)

HOLD = """
select id, fence, session_id, depth from mailbox where id in (:mailbox, :other) order by id /*lock*/"""
# A mailbox whose agent was paused during its turn is paused when the turn ends.
LIGHTEN = """
update mailbox
   set depth = depth - :count, owner = case when :release = 1 then null else owner end,
       ready_at = case when depth - :count > 0 then cast(:now as int8) else null end,
       paused = case when paused = 2
                      and not exists (select 1 from session
                                       where session.id = mailbox.session_id and session.open_turn is not null)
                     then 1 else paused end
 where id = :mailbox"""
TURN = Columns(
    Turn,
    without=("messages", "last_seq", "hop", "approval", "where"),
    epoch="(select epoch from session where id = :session)",
    stopping="stop_at is not null",
    chain=("chain", loaded),
    shared="(select shared from mailbox where id = turn.mailbox)",
)
READ_TURN = f"select {TURN}, approval, directory, repo from turn where session = :session and n = :n"
TURN_MESSAGES = """
select message, hop from inbound
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and state = 'in_turn' order by seq"""
SESSION = """
select last_seq, turns, open_turn, token_ratio, title, parent_id, exists (select 1 from forget where swept_at is null),
       epoch, cast(:now as int8),
       (select phase from turn where turn.session = session.id and turn.n = session.open_turn),
       (select approval from turn where turn.session = session.id and turn.n = session.open_turn), state
  from session where id = :session"""


class LiveSession(NamedTuple):
    """The row of SESSION. It is read under the lock of the session's mailbox."""

    last_seq: int
    turns: int
    open_turn: int | None
    token_ratio: float
    title: str | None
    parent: str | None
    is_forgetting: int  # providers may still hold words of a forgotten person
    epoch: int
    now: Instant
    phase: str | None  # of the open turn
    approval: str | None
    state: str


# Providers of an agent that may still hold words of a forgotten person.
OWING = """
select distinct delivery.provider from forget join forget_part on forget_part.forget = forget.id
  join delivery on delivery.n = forget_part.n
 where forget.swept_at is null and delivery.agent = :agent"""
TAKE = """
update inbound set state = 'in_turn', session = :session, turn = :turn
 where message = :message and mailbox = :mailbox and state = 'waiting' returning hop"""
TURN_FENCE = "select fence, phase from turn where session = :session and n = :n"
RESUME = """
update turn
   set attempt = :attempt, fence = :fence, lease_fence = (select fence from mailbox where id = :mailbox), node = :node
 where session = :session and n = :n"""
STEPPED = "update turn set phase = :phase, last_seq = :last_seq where session = :session and n = :n"
GROWN = "update session set last_seq = :last_seq, active_at = :now where id = :session"
WRITER = "select fence from entry where session = :session and seq = :seq"
CLOSE_TURN = """
update turn
   set phase = :phase, last_seq = :last_seq, closed_at = :now, tokens_in = :tokens_in, tokens_out = :tokens_out,
       reason = :reason, fence = :fence, lease_fence = (select fence from mailbox where id = :mailbox),
       title = :title, places = :places
 where session = :session and n = :n"""
FINISH_MESSAGES = """
update inbound set state = :state, reason = :reason, request = null
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and state = 'in_turn'"""
CHANNELS = """
select channel from inbound
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and state = 'in_turn' order by seq"""
CLOSED_SESSION = """
update session
   set last_seq = :last_seq, committed_seq = :last_seq, open_turn = null, active_at = :now, token_ratio = :ratio
 where id = :session"""


# --- the fence


class Held(NamedTuple):
    """A locked mailbox."""

    session: SessionId | None
    depth: int


def hold(claim: Claim, *, other: str = "") -> Script[Held]:
    """Lock the mailbox (and another, in id order) and verify the claim."""
    held, _ = yield from _hold_and_read(claim, other=other)
    return held


def _hold_and_read(
    claim: Claim, *queries: Query, session: SessionId | None = None, other: str = ""
) -> Script[tuple[Held, list[list[Row]]]]:
    """Lock the mailbox, then run the queries. Raises `ClaimLost` if the claim is void, or the session is not live."""
    locked, *found = yield from together(Query(HOLD, {"mailbox": claim.mailbox, "other": other}), *queries)
    mine = next((row for row in locked if row[0] == claim.mailbox), None)
    if mine is None or not stands(claim, mine[1]):
        raise ClaimLost(f"fence {claim.fence} is behind {mine and mine[1]}", mailbox=claim.mailbox)
    if session is not None and mine[2] != session:
        raise ClaimLost(f"session {session} is not live in {claim.mailbox}", mailbox=claim.mailbox)
    return Held(mine[2], mine[3]), found


def stands(claim: Claim, fence: int) -> bool:
    return claim.fence == fence


def lighten(claim: Claim, count: int, *, release: bool = False) -> Script[None]:
    """Subtract `count` finished messages; the mailbox stays ready while any is left. `release` ends the claim."""
    yield from run(LIGHTEN, mailbox=claim.mailbox, count=count, release=int(release))


# --- the open turn


def read_turn(claim: Claim, session: SessionId, n: int, last_seq: int) -> Script[Turn]:
    found = yield from together(*_turn_queries(claim, session, n))
    return (yield from _turn_of(session, n, last_seq, found))


def _turn_queries(claim: Claim, session: SessionId, n: int) -> tuple[Query, Query]:
    """The queries whose rows `_turn_of` takes."""
    return Query(READ_TURN, {"session": session, "n": n}), Query(TURN_MESSAGES, {"mailbox": claim.mailbox})


def _turn_of(session: SessionId, n: int, last_seq: int, found: Sequence[list[Row]]) -> Script[Turn]:
    turns, messages = found
    if not turns:
        raise InvariantBroken(f"the open turn {n} of {session} has no row", session=session)
    *row, approval, directory, repo = turns[0]
    turn = TURN.value(
        tuple(row),
        messages=tuple(MessageId(message) for message, _ in messages),
        last_seq=last_seq,
        hop=max((hop for _, hop in messages), default=0),
        where=CallerDirectory(directory or "", repo or ""),
    )
    if turn.phase is not Phase.AWAITING:
        return turn
    return replace(turn, approval=(yield from approval_sql.read_approval(ApprovalId(approval))))


def _hold_open(claim: Claim, turn: Turn) -> Script[tuple[LiveSession, Turn]]:
    """Lock the mailbox, and read its session and the open turn. Raises `ClaimLost` if this turn is not open."""
    session, queries = Query(SESSION, {"session": turn.session}), _turn_queries(claim, turn.session, turn.n)
    _, (sessions, *found) = yield from _hold_and_read(claim, session, *queries, session=turn.session)
    live = LiveSession._make(sessions[0]) if sessions else None
    if live is None or live.open_turn != turn.n:
        raise ClaimLost(f"turn {turn.n} of {turn.session} is not open", session=turn.session)
    return live, (yield from _turn_of(turn.session, turn.n, live.last_seq, found))


def take_queries(claim: Claim, messages: Sequence[MessageId], session: SessionId, turn: int) -> list[Query]:
    """The statements that make waiting messages part of a turn; `hop_of` takes their rows."""
    return [
        Query(TAKE, {"message": message, "mailbox": claim.mailbox, "session": session, "turn": turn})
        for message in messages
    ]


def hop_of(messages: Sequence[MessageId], taken: Sequence[list[Row]]) -> int:
    """The largest number of agents that one of the messages has passed."""
    hop = 0
    for message, found in zip(messages, taken, strict=True):
        if not found:
            raise InvariantBroken(f"message {message} is no longer waiting", message=message)
        hop = max(hop, found[0][0])
    return hop


@verb
def resume_turn(claim: Claim, turn: Turn) -> Script[Turn]:
    _, current = yield from _hold_open(claim, turn)
    if current.attempt != turn.attempt:
        yield from _require_resumed(claim, turn, current)
        return current
    advance(current.phase, TurnEvent.RESUMED)
    # A wait for an approval is not a failure, so it does not count as an attempt.
    attempt = current.attempt + (current.phase is not Phase.AWAITING)
    yield from record_resumption(claim, turn.session, turn.n)
    who = {"fence": claim.fence, "mailbox": claim.mailbox, "node": claim.node}
    yield from run(RESUME, session=turn.session, n=turn.n, attempt=attempt, **who)
    return replace(current, attempt=attempt)


def _require_resumed(claim: Claim, turn: Turn, current: Turn) -> Script[None]:
    """Accept a repeated resumption of this claim; any other attempt belongs to another worker."""
    row = yield from one(TURN_FENCE, session=turn.session, n=turn.n)
    if current.attempt != turn.attempt + 1 or row is None or row[0] != claim.fence:
        raise ClaimLost(f"turn {turn.n} is at attempt {current.attempt}, not {turn.attempt}", session=turn.session)


@verb
def append_step(claim: Claim, turn: Turn, step: Step) -> Script[Turn]:
    live, current = yield from _hold_open(claim, turn)
    if live.last_seq != turn.last_seq:
        yield from _require_mine(claim, turn, live.last_seq, turn.last_seq + len(step.entries))
        return current
    if step.ask is not None and current.phase is Phase.AWAITING:
        return current  # an earlier call asked, but its result was lost; the claim is valid, so no other worker asked
    phase = advance(current.phase, step.event)
    if current.approval is not None:
        yield from approval_sql.leave(claim, current.approval, step)
    bodies = (yield from _without_forgotten(claim, step.entries)) if live.is_forgetting else step.entries
    last_seq = yield from append(turn.session, turn.n, live.last_seq, bodies, claim)
    yield from run(STEPPED, session=turn.session, n=turn.n, phase=phase.value, last_seq=last_seq)
    yield from run(GROWN, session=turn.session, last_seq=last_seq)
    yield from record_activities(claim, turn.session, turn.n, step.activities)
    hop_of(step.messages, (yield from together(*take_queries(claim, step.messages, turn.session, turn.n))))
    yield from send_messages(claim, current, step.outgoing)
    asked = (yield from approval_sql.ask(claim, current, step.ask)) if step.ask is not None else None
    messages = current.messages + step.messages
    return replace(current, phase=phase, last_seq=last_seq, messages=messages, approval=asked)


def _without_forgotten(claim: Claim, bodies: Sequence[AnyBody]) -> Script[Sequence[AnyBody]]:
    """Blank recalls from providers that have not yet erased the words of a forgotten person.

    The model would repeat the words, and no source would then mark them for erasure.
    """
    owing = {row[0] for row in (yield from rows(OWING, agent=claim.agent))}
    return [
        replace_body(body, text="", sources=())
        if isinstance(body, Recalled) and any(source.partition(":")[0] in owing for source in body.sources)
        else body
        for body in bodies
    ]


def _require_mine(claim: Claim, turn: Turn, found_seq: int, written_seq: int) -> Script[None]:
    """Accept the entries of a repeated step of this claim; any other entries belong to another worker."""
    row = yield from one(WRITER, session=turn.session, seq=found_seq)
    if found_seq != written_seq or row is None or row[0] != claim.fence:
        raise ClaimLost(f"{turn.session} is at entry {found_seq}, not {turn.last_seq}", session=turn.session)


@verb
def commit_turn(
    claim: Claim, turn: Turn, commit: TurnCommit, keeps: Callable[[int], bool] = lambda _: True
) -> Script[Committed]:
    """End a turn. `keeps` decides by the number of messages that are left whether the claim stays."""
    held, (sessions, channels, *cursors) = yield from _hold_and_read(
        claim,
        Query(SESSION, {"session": turn.session}),
        Query(CHANNELS, {"mailbox": claim.mailbox}),
        *marks_queries(turn.session, commit.policies),
        session=turn.session,
    )
    live = LiveSession._make(sessions[0]) if sessions else None
    if live is None or live.open_turn != turn.n:
        return (yield from _repeated_commit(claim, turn, held))
    if live.last_seq != turn.last_seq:
        raise ClaimLost(f"{turn.session} is at entry {live.last_seq}, not {turn.last_seq}", session=turn.session)
    phase, reason = advance(Phase(live.phase), commit.event), plain(commit.reason)
    last_seq = yield from append(turn.session, turn.n, live.last_seq, commit.entries, claim)
    span = span_of(turn.n, turn.first_seq, last_seq, _naming(claim, turn, live), commit.policies)
    yield from run(
        CLOSE_TURN,
        session=turn.session,
        n=turn.n,
        phase=phase.value,
        last_seq=last_seq,
        tokens_in=commit.usage.tokens_in,
        tokens_out=commit.usage.tokens_out,
        reason=reason,
        fence=claim.fence,
        mailbox=claim.mailbox,
        title=span.title,
        places=span.places,
    )
    yield from record_activities(claim, turn.session, turn.n, commit.activities)
    yield from run(FINISH_MESSAGES, mailbox=claim.mailbox, state=MESSAGE_STATES[phase].value, reason=reason)
    for reply in commit.replies:
        yield from insert_reply(
            reply,
            mailbox=claim.mailbox,
            address=claim.address,
            channel=channels[-1][0] if channels else "http",
            message=turn.messages[-1],
            session=turn.session,
            turn=turn.n,
        )
    ratio = calibrate(live.token_ratio, commit.usage.tokens_in, commit.usage.estimated_in)
    yield from run(CLOSED_SESSION, session=turn.session, last_seq=last_seq, ratio=ratio)
    if live.approval is not None:
        yield from approval_sql.close(claim.mailbox, turn.session, turn.n)
    left = held.depth - len(channels)
    released = not keeps(left)
    yield from lighten(claim, len(channels), release=released)
    marks: dict[str, int] = dict(cursors[0]) if cursors else {}
    yield from schedule(turn.session, claim.agent, commit.policies, start=turn.first_seq - 1, newest=span, marks=marks)
    return Committed(left, released)


def _naming(claim: Claim, turn: Turn, live: LiveSession) -> NamingInputs:
    return NamingInputs(
        agent=claim.agent,
        session=turn.session,
        principal=turn.principal,
        address=claim.address,
        parent=SessionId(live.parent) if live.parent else None,
        title=live.title,
        directory=turn.where.directory,
        repo=turn.where.repo,
    )


def _repeated_commit(claim: Claim, turn: Turn, held: Held) -> Script[Committed]:
    row = yield from one(TURN_FENCE, session=turn.session, n=turn.n)
    if row is None or row[0] != claim.fence or Phase(row[1]) not in CLOSED:
        raise ClaimLost(f"turn {turn.n} of {turn.session} is not open", session=turn.session)
    return Committed(held.depth)
