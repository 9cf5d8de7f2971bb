"""Opening a turn, and observing messages that open none: both make a session live and note who spoke.

Speakers of a chat (D44): linked accounts are one person while they are linked. `mailbox.speaker` is the first account
that spoke, and `linked_speaker` holds the accounts that spoke as the same person since. Every turn compares both,
because a link may be revoked. The sender of a /retry reads the answer too, which is given as to the person who is
answered again, so it counts as a speaker. A shared chat stays shared.
"""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.inbox.agent_chain import Chain, chain_of_turn, stored
from holdfast.inbox.mailbox import Claim, SessionHead
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import ClaimLost, InvariantBroken
from holdfast.kernel.ids import MessageId, Principal, SessionId
from holdfast.memory.visibility import is_agent
from holdfast.sessions.command import CommandVerb
from holdfast.sessions.command_rights import NotAllowed
from holdfast.sessions.command_rights_sql import given_by, giver, judge_turns
from holdfast.sessions.finalisation_sql import reopen
from holdfast.sessions.session import SessionState
from holdfast.sessions.session_sql import new_session, pick_turns, undo_turns
from holdfast.store.script import Query, Row, Script, many, one, run, together, verb
from holdfast.turns.journal import Observed
from holdfast.turns.journal_sql import append
from holdfast.turns.turn import Committed, Phase, Turn, TurnOpening
from holdfast.turns.turn_sql import SESSION, Held, LiveSession, hold, hop_of, lighten, read_turn, take_queries

NEW_TURN = """
insert into turn (session, n, key, phase, attempt, fence, lease_fence, mailbox, place, principal, first_seq, last_seq,
                  directory, repo, chain, node, opened_at)
values (:session, :n, null, :phase, 1, :fence, (select fence from mailbox where id = :mailbox), :mailbox, :place,
        :principal, :first_seq, :last_seq, :directory, :repo, :chain, :node, :now)"""
OPENED = """
update session
   set last_seq = :last_seq, turns = :n, open_turn = :n, active_at = :now,
       several = case when principal = :principal then several else 1 end
 where id = :session"""
REPEATED = "select chain, principal from turn where session = :session and n = :n"
# An earlier speaker who is another person under the current links can read the answers, so the chat is shared.
PERSON = "coalesce((select person from identity where identity.principal = {0}), {0})"
IS_ANOTHER = f"{PERSON} <> {PERSON.format('cast(:person as text)')}"
ATTENDED = f"""
update mailbox
   set unattended = case when :human = 1 then 0 else unattended + 1 end, speaker = coalesce(speaker, :person),
       shared = case when cast(:person as text) is null then shared
                     when cast(:reader as text) is not null and {IS_ANOTHER.format("cast(:reader as text)")} then 1
                     when speaker is null then shared
                     when speaker <> :person and {IS_ANOTHER.format("speaker")} then 1
                     when exists (select 1 from linked_speaker as other
                                   where other.mailbox = mailbox.id and {IS_ANOTHER.format("other.principal")}) then 1
                     else shared end
 where id = :mailbox returning speaker, shared, paused"""
LINKED_SPEAKER = """
insert into linked_speaker (mailbox, principal) values (:mailbox, :person)
on conflict (mailbox, principal) do nothing"""
READ_WAITING = """
select message, principal, event_id, body, sender_name from inbound
 where message = :message and mailbox = :mailbox and state = 'waiting'"""
OBSERVE = "update inbound set state = :state, reason = :reason, session = :session where message = :message"
OBSERVED_SESSION = """
update session
   set last_seq = :last_seq, committed_seq = :last_seq, active_at = :now,
       several = case when :alone = 1 and principal = :principal then several else 1 end
 where id = :session"""


@verb
def open_turn(claim: Claim, opening: TurnOpening) -> Script[Turn | NotAllowed]:
    """Open a turn and return it. If the sender may not retry the last turn, return `NotAllowed` and change nothing."""
    held = yield from hold(claim)
    live = yield from live_session(claim, held, opening.session, opening.principal)
    last_seq = live.last_seq
    if live.open_turn is not None:
        turn = yield from read_turn(claim, opening.session, live.open_turn, last_seq)
        if turn.messages != opening.messages:
            raise InvariantBroken(f"turn {turn.n} of {turn.session} is open with other messages", session=turn.session)
        return turn  # an earlier call opened it, but its result was lost
    if opening.retry:
        again = yield from pick_turns(opening.session, 1)
        by = opening.messages[0]
        given = yield from given_by(by, mailbox=claim.mailbox, address=claim.address, operators=opening.operators)
        rank = yield from giver(CommandVerb.RETRY, given)
        refused = yield from judge_turns(CommandVerb.RETRY, rank, again.by_session)
        if refused is not None:
            return refused
        last_seq = yield from undo_turns(opening.session, claim, again, by=by)
        opening = replace(opening, chain=(yield from _repeated_chain(opening)))
    head = SessionHead(last_seq=last_seq, turns=live.turns, epoch=live.epoch, is_open=True, now=live.now)
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
        directory=opening.where.directory or None,
        repo=opening.where.repo or None,
        chain=stored(opening.chain) if opening.chain else None,
        node=claim.node,
    )
    yield from run(OPENED, session=opening.session, n=n, last_seq=last_seq, principal=opening.principal)
    taking = take_queries(claim, opening.messages, opening.session, n)
    person, reader = _speaker(opening.principal), _speaker(opening.retried_by)
    who = {"mailbox": claim.mailbox, "human": int(opening.human), "person": person, "reader": reader}
    attended, *found = yield from together(Query(ATTENDED, who), *taking, *beside)
    hop = hop_of(opening.messages, found[: len(taking)])
    shared = yield from _is_shared(claim, {person, reader}, attended)
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


def _speaker(principal: Principal | None) -> str | None:
    """A speaker of a chat; an agent does not count as one."""
    return None if principal is None or is_agent(principal) else principal


def _is_shared(claim: Claim, speakers: set[str | None], attended: list[Row]) -> Script[bool]:
    """Whether several people have spoken in the chat. If not, the linked accounts that spoke or retried are kept."""
    first, shared, paused = attended[0] if attended else (None, 1, 0)
    if paused:
        raise ClaimLost(f"{claim.agent} was paused after {claim.mailbox} was claimed", mailbox=claim.mailbox)
    for account in [] if shared else sorted(filter(None, speakers - {first})):
        yield from run(LINKED_SPEAKER, mailbox=claim.mailbox, person=account)
    return bool(shared)


def _repeated_chain(opening: TurnOpening) -> Script[Chain]:
    """The chain of the retried turn: a retry has the same tools, regardless of its sender."""
    session, n = opening.repeats or (opening.session, 0)
    row = yield from one(REPEATED, session=session, n=n)
    return chain_of_turn(row[0], row[1]) if row is not None else chain_of_turn(None, opening.principal)


def live_session(claim: Claim, held: Held, session: SessionId, principal: Principal) -> Script[LiveSession]:
    """The mailbox's session, opened under the given id if the mailbox has none.

    The lock of the mailbox covers it: every other writer of these columns holds the mailbox too.
    """
    if held.session is None:
        yield from new_session(claim, session, principal)
    elif held.session != session:
        raise ClaimLost(f"{claim.mailbox} is in session {held.session}, not {session}", mailbox=claim.mailbox)
    row = yield from one(SESSION, session=session)
    if row is None:
        raise InvariantBroken(f"the live session {session} has no row", session=session)
    live = LiveSession._make(row)
    if live.state == SessionState.EXPIRING.value:  # a message before the close continues in the next epoch (D23)
        return live._replace(epoch=(yield from reopen(session)) or live.epoch)
    return live


@verb
def observe_messages(
    claim: Claim, session: SessionId, messages: Sequence[MessageId], *, held: str | None = None
) -> Script[Committed]:
    """Journal messages that open no turn (D12)."""
    claimed = yield from hold(claim)
    waiting = []
    for message in messages:
        found = yield from one(READ_WAITING, message=message, mailbox=claim.mailbox)
        if found is not None:
            waiting.append(found)
    if not waiting:
        return Committed(claimed.depth)
    live = yield from live_session(claim, claimed, session, Principal(waiting[0][1]))
    if live.open_turn is not None:
        raise InvariantBroken(f"talk is observed while turn {live.open_turn} of {session} is open", session=session)
    bodies = [
        Observed(text=bytes(body).decode(), principal=principal, message=message, event_id=event_id, name=name or "")
        for message, principal, event_id, body, name in waiting
    ]
    last_seq = yield from append(session, 0, live.last_seq, bodies, claim)
    state = MessageState.HELD if held else MessageState.OBSERVED
    yield from many(
        OBSERVE,
        [{"message": found[0], "state": state.value, "reason": held, "session": session} for found in waiting],
    )
    speakers = {found[1] for found in waiting}
    alone = int(len(speakers) == 1)
    yield from run(OBSERVED_SESSION, session=session, last_seq=last_seq, principal=min(speakers), alone=alone)
    yield from lighten(claim, len(waiting))
    return Committed(claimed.depth - len(waiting))
