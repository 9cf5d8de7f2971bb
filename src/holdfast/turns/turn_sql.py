"""Turn verbs: the holder of a claim opens, steps, resumes and commits a turn."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec.structs import replace as replace_body

from holdfast.inbox.agent_chain import Chain, chain_of_turn, stored
from holdfast.inbox.mailbox import Claim, SessionHead
from holdfast.kernel.errors import ClaimLost, InvariantBroken
from holdfast.kernel.ids import MessageId, Principal, SessionId
from holdfast.memory.cursor_sql import marks_queries, places_of, schedule
from holdfast.memory.delivery import CallerDirectory, NamingInputs, TurnSpan
from holdfast.outbox.reply_sql import insert_reply, send_messages
from holdfast.sessions.command import CommandVerb
from holdfast.sessions.command_rights import NotAllowed
from holdfast.sessions.command_rights_sql import given_by, giver, judge_turns
from holdfast.sessions.finalisation_sql import reopen
from holdfast.sessions.session_sql import PickedTurns, new_session, pick_turns, undo_turns
from holdfast.store.script import Query, Row, Script, one, plain, rows, run, together, verb
from holdfast.turns import approval_sql
from holdfast.turns.context import calibrate
from holdfast.turns.fence_sql import Held, held_of, hold, hold_query, lighten
from holdfast.turns.journal import AnyBody, Recalled
from holdfast.turns.journal_sql import append
from holdfast.turns.read_turn_sql import READ_TURN, read_turn, turn_of, turn_queries
from holdfast.turns.speaker_sql import attend, attend_query
from holdfast.turns.turn import (
    CLOSED,
    MESSAGE_STATES,
    Committed,
    Phase,
    Step,
    Turn,
    TurnCommit,
    TurnEvent,
    TurnOpening,
    advance,
)

SESSION = """
select last_seq, turns, open_turn, token_ratio, title, parent_id, exists (select 1 from forget where swept_at is null),
       epoch, cast(:now as int8),
       (select phase from turn where turn.session = session.id and turn.n = session.open_turn),
       (select approval from turn where turn.session = session.id and turn.n = session.open_turn), state
  from session where id = :session"""
# Providers of an agent that may still hold words of a forgotten person.
OWING = """
select distinct delivery.provider from forget join forget_part on forget_part.forget = forget.id
  join delivery on delivery.n = forget_part.n
 where forget.swept_at is null and delivery.agent = :agent"""
NEW_TURN = """
insert into turn (session, n, key, phase, attempt, fence, lease_fence, mailbox, place, principal, first_seq, last_seq,
                  directory, repo, chain, opened_at)
values (:session, :n, null, :phase, 1, :fence, (select fence from mailbox where id = :mailbox), :mailbox, :place,
        :principal, :first_seq, :last_seq, :directory, :repo, :chain, :now)"""
TAKE = """
update inbound set state = 'in_turn', session = :session, turn = :turn
 where message = :message and mailbox = :mailbox and state = 'waiting' returning hop"""
OPENED = """
update session
   set last_seq = :last_seq, turns = :n, open_turn = :n, active_at = :now,
       several = case when principal = :principal then several else 1 end
 where id = :session"""
REPEATED = "select chain, principal from turn where session = :session and n = :n"
TURN_FENCE = "select fence from turn where session = :session and n = :n"
RESUME = """
update turn
   set attempt = :attempt, fence = :fence, lease_fence = (select fence from mailbox where id = :mailbox)
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


@verb
def open_turn(claim: Claim, opening: TurnOpening) -> Script[Turn | NotAllowed]:
    """Open a turn and return it. If the sender may not retry the last turn, return `NotAllowed` and change nothing."""
    held = yield from hold(claim)
    row = yield from live_session(claim, held, opening.session, opening.principal)
    last_seq, turns, already = row[:3]
    if already is not None:
        return (yield from _repeated_opening(claim, opening, already))
    if opening.retry:
        again = yield from pick_turns(opening.session, 1)
        refused = yield from _judge_retry(claim, opening, again)
        if refused is not None:
            return refused
        last_seq = yield from undo_turns(opening.session, claim, again, by=opening.messages[0])
        opening = replace(opening, chain=(yield from _repeated_chain(opening)))
    head = SessionHead(last_seq=last_seq, turns=turns, epoch=row[7], is_open=True, now=row[8])
    turn, _ = yield from insert_turn(claim, opening, head)
    return turn


def insert_turn(
    claim: Claim, opening: TurnOpening, head: SessionHead, beside: Sequence[Query] = ()
) -> Script[tuple[Turn, list[list[Row]]]]:
    """Open a turn at the end of the live session. The caller holds the mailbox in this transaction.

    Returns the turn, and the rows of the queries in `beside`, which see it.
    """
    n, first_seq = head.turns + 1, head.last_seq + 1
    last_seq = yield from append(opening.session, n, head.last_seq, opening.entries, claim)
    yield from run(
        NEW_TURN,
        session=opening.session,
        n=n,
        phase=Phase.THINKING.value,
        fence=claim.fence,
        mailbox=claim.mailbox,
        place=claim.address,
        principal=opening.principal,
        first_seq=first_seq,
        last_seq=last_seq,
        directory=_paths(opening.where)[0],
        repo=_paths(opening.where)[1],
        chain=stored(opening.chain),
    )
    yield from run(OPENED, session=opening.session, n=n, last_seq=last_seq, principal=opening.principal)
    taking = _take_queries(claim, opening.messages, opening.session, n)
    attended, *found = yield from together(attend_query(claim, opening), *taking, *beside)
    hop = _hop(opening.messages, found[: len(taking)])
    shared = yield from attend(claim, opening, attended)
    turn = Turn(
        session=opening.session,
        n=n,
        phase=Phase.THINKING,
        attempt=1,
        principal=opening.principal,
        messages=opening.messages,
        first_seq=first_seq,
        last_seq=last_seq,
        epoch=head.epoch,
        opened_at=head.now,
        hop=hop,
        where=opening.where,
        chain=opening.chain,
        shared=shared,
    )
    return turn, found[len(taking) :]


def _repeated_chain(opening: TurnOpening) -> Script[Chain]:
    """The chain of the retried turn: a retry has the same tools, regardless of its sender."""
    session, n = opening.repeats or (opening.session, 0)
    row = yield from one(REPEATED, session=session, n=n)
    return chain_of_turn(row[0], row[1]) if row is not None else chain_of_turn(None, opening.principal)


def _judge_retry(claim: Claim, opening: TurnOpening, again: PickedTurns) -> Script[NotAllowed | None]:
    given = yield from given_by(
        opening.messages[0], mailbox=claim.mailbox, address=claim.address, operators=opening.operators
    )
    return (yield from judge_turns(CommandVerb.RETRY, (yield from giver(CommandVerb.RETRY, given)), again.by_session))


def live_session(claim: Claim, held: Held, session: SessionId, principal: Principal) -> Script[Row]:
    """The row of the mailbox's session, opened under the given id if the mailbox has none.

    The lock of the mailbox covers it: every other writer of these columns holds the mailbox too.
    """
    if held.session is None:
        yield from new_session(claim, session, principal)
    elif held.session != session:
        raise ClaimLost(f"{claim.mailbox} is in session {held.session}, not {session}", mailbox=claim.mailbox)
    row = yield from one(SESSION, session=session)
    if row is None:
        raise InvariantBroken(f"the live session {session} has no row", session=session)
    if row[-1] == "expiring":  # a message before the close continues in the next epoch (D23)
        epoch = yield from reopen(session)
        return (*row[:7], epoch or row[7], *row[8:])
    return row


def _repeated_opening(claim: Claim, opening: TurnOpening, n: int) -> Script[Turn]:
    """The open turn, if an earlier call committed the opening but its result was lost."""
    (last_seq, *_) = (yield from one(SESSION, session=opening.session)) or (0,)
    turn = yield from read_turn(claim, opening.session, n, last_seq)
    if turn.messages != opening.messages:
        raise InvariantBroken(f"turn {n} of {opening.session} is open with other messages", session=opening.session)
    return turn


def _take_queries(claim: Claim, messages: Sequence[MessageId], session: SessionId, turn: int) -> list[Query]:
    """The statements that make waiting messages part of a turn; `_hop` takes their rows."""
    return [
        Query(TAKE, {"message": message, "mailbox": claim.mailbox, "session": session, "turn": turn})
        for message in messages
    ]


def _hop(messages: Sequence[MessageId], taken: Sequence[list[Row]]) -> int:
    """The largest number of agents that one of the messages has passed."""
    hop = 0
    for message, found in zip(messages, taken, strict=True):
        if not found:
            raise InvariantBroken(f"message {message} is no longer waiting", message=message)
        hop = max(hop, found[0][0])
    return hop


@verb
def resume_turn(claim: Claim, turn: Turn) -> Script[Turn]:
    yield from hold(claim, session=turn.session)
    row = yield from one(SESSION, session=turn.session)
    if row is None or row[2] != turn.n:
        raise ClaimLost(f"turn {turn.n} of {turn.session} is not open", session=turn.session)
    current = yield from read_turn(claim, turn.session, turn.n, row[0])
    if current.attempt != turn.attempt:
        yield from _require_resumed(claim, turn, current)
        return current
    advance(current.phase, TurnEvent.RESUMED)
    # A wait for an approval is not a failure, so it does not count as an attempt.
    attempt = current.attempt + (current.phase is not Phase.AWAITING)
    yield from run(RESUME, session=turn.session, n=turn.n, fence=claim.fence, mailbox=claim.mailbox, attempt=attempt)
    return replace(current, attempt=attempt)


def _require_resumed(claim: Claim, turn: Turn, current: Turn) -> Script[None]:
    """Accept a repeated resumption of this claim; any other attempt belongs to another worker."""
    row = yield from one(TURN_FENCE, session=turn.session, n=turn.n)
    if current.attempt != turn.attempt + 1 or row is None or row[0] != claim.fence:
        raise ClaimLost(f"turn {turn.n} is at attempt {current.attempt}, not {turn.attempt}", session=turn.session)


@verb
def append_step(claim: Claim, turn: Turn, step: Step) -> Script[Turn]:
    _, row, found = yield from _hold_all(claim, turn.session, *turn_queries(claim, turn.session, turn.n))
    if row is None or row[2] != turn.n:
        raise ClaimLost(f"turn {turn.n} of {turn.session} is not open", session=turn.session)
    current = yield from turn_of(turn.session, turn.n, row[0], found)
    if row[0] != turn.last_seq:
        yield from _require_mine(claim, turn, row[0], turn.last_seq + len(step.entries))
        return current
    if step.ask is not None and current.phase is Phase.AWAITING:
        return current  # an earlier call asked, but its result was lost; the claim is valid, so no other worker asked
    phase = advance(current.phase, step.event)
    if current.approval is not None:
        yield from approval_sql.leave(claim, current.approval, step)
    bodies = (yield from _without_forgotten(claim, step.entries)) if row[6] else step.entries
    last_seq = yield from append(turn.session, turn.n, row[0], bodies, claim)
    yield from run(STEPPED, session=turn.session, n=turn.n, phase=phase.value, last_seq=last_seq)
    yield from run(GROWN, session=turn.session, last_seq=last_seq)
    _hop(step.messages, (yield from together(*_take_queries(claim, step.messages, turn.session, turn.n))))
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
    queries = (Query(CHANNELS, {"mailbox": claim.mailbox}), *marks_queries(turn.session, commit.policies))
    held, row, (channels, *cursors) = yield from _hold_all(claim, turn.session, *queries)
    if row is None or row[2] != turn.n:
        return (yield from _repeated_commit(claim, turn, held))
    if row[0] != turn.last_seq:
        raise ClaimLost(f"{turn.session} is at entry {row[0]}, not {turn.last_seq}", session=turn.session)
    phase = advance(Phase(row[9]), commit.event)
    reason = plain(commit.reason)
    last_seq = yield from append(turn.session, turn.n, row[0], commit.entries, claim)
    title, places = row[4], places_of(commit.policies, _naming(claim, turn, row))
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
        title=title,
        places=places,
    )
    yield from run(FINISH_MESSAGES, mailbox=claim.mailbox, state=MESSAGE_STATES[phase].value, reason=reason)
    channel = channels[-1][0] if channels else "http"
    for reply in commit.replies:
        yield from insert_reply(
            reply,
            mailbox=claim.mailbox,
            address=claim.address,
            channel=channel,
            message=turn.messages[-1],
            session=turn.session,
            turn=turn.n,
        )
    ratio = calibrate(row[3], commit.usage.tokens_in, commit.usage.estimated_in)
    yield from run(CLOSED_SESSION, session=turn.session, last_seq=last_seq, ratio=ratio)
    if row[10] is not None:
        yield from approval_sql.close(claim.mailbox, turn.session, turn.n)
    left = held.depth - len(channels)
    released = not keeps(left)
    yield from lighten(claim, len(channels), release=released)
    directory, repo = _paths(turn.where)
    newest = TurnSpan(turn.n, turn.first_seq, last_seq, claim.address, turn.principal, title, places, directory, repo)
    marks: dict[str, int] = dict(cursors[0]) if cursors else {}
    yield from schedule(
        turn.session, claim.agent, commit.policies, start=turn.first_seq - 1, newest=newest, marks=marks
    )
    return Committed(left, released)


def _hold_all(claim: Claim, session: SessionId, *beside: Query) -> Script[tuple[Held, Row | None, list[list[Row]]]]:
    """Lock the mailbox of a live session; returns it, the session, and the rows of each query in `beside`."""
    held, sessions, *found = yield from together(hold_query(claim), Query(SESSION, {"session": session}), *beside)
    return held_of(claim, held, session), sessions[0] if sessions else None, found


def _naming(claim: Claim, turn: Turn, row: Row) -> NamingInputs:
    return NamingInputs(
        agent=claim.agent,
        session=turn.session,
        principal=turn.principal,
        address=claim.address,
        parent=SessionId(row[5]) if row[5] else None,
        title=row[4],
        directory=turn.where.directory,
        repo=turn.where.repo,
    )


def _paths(where: CallerDirectory) -> tuple[str | None, str | None]:
    return where.directory or None, where.repo or None


def _repeated_commit(claim: Claim, turn: Turn, held: Held) -> Script[Committed]:
    row = yield from one(READ_TURN, session=turn.session, n=turn.n)
    if row is None or Phase(row[0]) not in CLOSED or row[6] != claim.fence:
        raise ClaimLost(f"turn {turn.n} of {turn.session} is not open", session=turn.session)
    return Committed(held.depth)
