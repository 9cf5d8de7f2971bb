"""accept: deduplicate, append to the mailbox, commit. Signals take effect in the same transaction."""

import hashlib
import hmac
from dataclasses import dataclass

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import stored
from holdfast.inbox.attachment_sql import enclose, note_position
from holdfast.inbox.message import (
    Accepted,
    AcceptOutcome,
    Arrival,
    Conflict,
    Duplicate,
    Limits,
    MailboxFull,
    MessageKind,
    MessageState,
    Status,
    TooMany,
    Unfit,
)
from holdfast.kernel.ids import MailboxId, MessageId, SessionId
from holdfast.memory.visibility import AGENTS
from holdfast.outbox.post import PULLED
from holdfast.outbox.reply_sql import insert_reply
from holdfast.sessions.command import CommandVerb, meant_by, parse_command
from holdfast.sessions.command_rights import CommandPlace, Rank, judge
from holdfast.sessions.command_rights_sql import are_own, given_now, giver
from holdfast.sessions.system_messages import refused_text, status_text, stop_text, suggestion_text
from holdfast.store.agent_lock_sql import share_agent
from holdfast.store.script import Query, Row, Script, one, rows, run, together, verb
from holdfast.turns.approval_sql import decide_here, sender_as_actor
from holdfast.turns.turn import NewReply

FIND_MAILBOX = """
select id, depth, last_seq, window_at, window_count, session_id, cast(:now as int8)
  from mailbox where id = (select mailbox_id from address where address = :address) /*lock*/"""
NEW_ADDRESS = """
insert into address (address, mailbox_id) values (:address, :mailbox)
on conflict (address) do nothing returning address"""
NEW_MAILBOX = """
insert into mailbox (id, agent, address, paused)
values (:mailbox, :agent, :address,
        case when exists (select 1 from agent_pause where agent_pause.agent = :agent) then 1 else 0 end)"""
FIND_EVENT = """
select message, body_hash, state from inbound
 where account = :account and conversation = :conversation and event_id = :event_id
union all
select message, body_hash, state from tombstone where hash = :hash"""
# A linked principal speaks as its person; an agent never does. The hash is of the principal that the platform sent.
# A message of a chat that has moved is answered at the new address. The mailbox is locked, so no move is under way.
NEW_INBOUND = """
insert into inbound (message, mailbox, seq, account, conversation, event_id, body_hash, principal, channel,
                     kind, human, hop, body, state, reason, session, at, address, sender_name, directory, repo, token,
                     chain, request, rank)
values (:message, :mailbox, :seq, :account, :conversation, :event_id, :body_hash,
        coalesce((select person from identity where principal = :principal and :is_agents = 0), :principal), :channel,
        :kind, :human, :hop, :body, :state, :reason, :session, :now,
        coalesce((select moved_to from address where address.address = :address), :address), :sender_name, :directory,
        :repo, :token, :chain, :request, :rank)"""
# The text of an agent message is that of its reply row, whose id is the event id. A forget request may have blanked it.
AGENT_MESSAGE = "select length(body) from reply where id = :reply"
GROW = """
update mailbox
   set last_seq = :seq, depth = depth + :heavier, window_at = :window_at, window_count = :window_count,
       ready_at = case when :heavier = 1 and :spoken = 1 and yields = 1 then cast(:now as int8)
                       when :heavier = 1 then coalesce(ready_at, :now) else ready_at end,
       waits_until = case when :heavier = 1 and :spoken = 1 and yields = 1 then null else waits_until end
 where id = :mailbox"""
REFUSED_LATELY = """
select 1 from (select state, reason, at from inbound where mailbox = :mailbox order by seq desc limit :newest) as lately
 where state = 'refused' and at > :since and reason in ('mailbox_full', 'rate_limited') limit 1"""
OPEN_TURN = """
select turn.n, turn.attempt, turn.phase, turn.stop_at,
       (select count(*) from inbound where inbound.session = turn.session and inbound.turn = turn.n)
  from session join turn on turn.session = session.id and turn.n = session.open_turn
 where session.id = :session"""
STOP = "update turn set stop_at = :now where session = :session and n = :n and stop_at is null"
HURRY = """
update mailbox
   set ready_at = case when ready_at > :now then cast(:now as int8) else ready_at end, waits_until = null, yields = 0
 where id = :mailbox"""
SIGNALS_SHARE = 2  # signals are accepted up to this many times the window's limit for other messages


@dataclass(slots=True)
class Box:
    """The mailbox row, under lock."""

    id: MailboxId
    depth: int
    last_seq: int
    window_at: int
    window_count: int
    session: SessionId | None
    now: int


# For people who ask whether a message was sent again; of a pruned message nothing is left to count in.
REPEATED = "update inbound set repeats = repeats + 1, repeated_at = :now where message = :message"


@verb
def accept_message(arrival: Arrival, limits: Limits, secret: bytes, via: By = PROGRAM) -> Script[AcceptOutcome]:
    box, found = yield from _mailbox(arrival, secret)
    if arrival.position is not None:
        yield from note_position(arrival.account, arrival.conversation, arrival.position, arrival.event_id)
    if found is not None:
        known = _known(arrival, found, secret)
        if isinstance(known, Duplicate):
            yield from run(REPEATED, message=known.message)
        return known
    if arrival.principal.startswith(AGENTS) and (yield from _is_forgotten(arrival)):
        return Unfit("its words were forgotten on their way")
    if box.now - box.window_at >= limits.window_ms:
        box.window_at, box.window_count = box.now, 0
    refusal = _refusal(arrival, box, limits)
    if refusal is not None:
        if arrival.refuse_durably:
            yield from _refuse(arrival, box, limits, secret, refusal)
        return refusal
    box.window_count += not arrival.trusted
    if arrival.kind is MessageKind.SIGNAL:
        yield from _append(arrival, box, secret, MessageState.COMMAND)
        yield from _signal(arrival, box, via)
        return Accepted(arrival.message, box.id, 0)
    yield from _append(arrival, box, secret, MessageState.WAITING)
    if arrival.enclosures:
        yield from enclose(arrival.message, arrival.enclosures)
    return Accepted(arrival.message, box.id, box.depth)


def _mailbox(arrival: Arrival, secret: bytes) -> Script[tuple[Box, Row | None]]:
    """The mailbox, under lock, and the event if it is known."""
    boxes, known = yield from _look(arrival, secret)
    if not boxes:
        yield from _new_mailbox(arrival.address, arrival.new_mailbox)
        boxes, known = yield from _look(arrival, secret)
    (row,) = boxes  # inserted above, or by the transaction this one waited for
    return Box(*row), known[0] if known else None


def _new_mailbox(address: Address, mailbox: MailboxId) -> Script[None]:
    yield from share_agent(address.agent)
    made = yield from one(NEW_ADDRESS, address=str(address), mailbox=mailbox)
    if made is not None:
        yield from run(NEW_MAILBOX, mailbox=mailbox, agent=address.agent, address=str(address))


def hold_mailbox(address: Address, new_mailbox: MailboxId) -> Script[Box]:
    """The mailbox of an address, under lock; created under the given id if the address is new."""
    found = yield from rows(FIND_MAILBOX, address=str(address))
    if not found:
        yield from _new_mailbox(address, new_mailbox)
        found = yield from rows(FIND_MAILBOX, address=str(address))
    return Box(*found[0])


def _look(arrival: Arrival, secret: bytes) -> Script[list[list[Row]]]:
    event = _event(arrival.account, arrival.conversation, arrival.event_id, secret)
    return (yield from together(Query(FIND_MAILBOX, {"address": str(arrival.address)}), event))


def _known(arrival: Arrival, row: Row, secret: bytes) -> AcceptOutcome:
    known = bytes(row[1])  # empty for a forgotten message: no hash of its text remains
    if known and known != keyed(secret, arrival.body_hash):
        return Conflict(MessageId(row[0]))
    return Duplicate(MessageId(row[0]), MessageState(row[2]))


def _is_forgotten(arrival: Arrival) -> Script[bool]:
    """Whether a forget request blanked this agent message.

    A forget request holds the mailbox lock under which this runs, so the message is stored before it or never.
    """
    row = yield from one(AGENT_MESSAGE, reply=arrival.event_id.rpartition(".")[0])
    return row is not None and row[0] == 0


@verb
def was_accepted(account: str, conversation: str, event_id: str, secret: bytes) -> Script[bool]:
    """Whether the event was ever stored in a mailbox; a refused event was not."""
    (found,) = yield from together(_event(account, conversation, event_id, secret))
    return bool(found) and found[0][2] != MessageState.REFUSED.value


def _event(account: str, conversation: str, event_id: str, secret: bytes) -> Query:
    hash_ = tombstone_hash(secret, account, conversation, event_id)
    return Query(FIND_EVENT, {"account": account, "conversation": conversation, "event_id": event_id, "hash": hash_})


def _refusal(arrival: Arrival, box: Box, limits: Limits) -> MailboxFull | TooMany | Unfit | None:
    """The reason to refuse the message. Signals pass a full mailbox, which is when a user most needs /stop."""
    if arrival.unfit and box.window_count < limits.window_messages_max:
        return Unfit(arrival.unfit)
    is_signal = arrival.kind is MessageKind.SIGNAL
    if box.depth >= limits.mailbox_depth_max and not is_signal:
        return MailboxFull(box.depth, arrival.refuse_durably)
    if arrival.trusted:
        return None
    if box.window_count >= limits.window_messages_max * (SIGNALS_SHARE if is_signal else 1):
        return TooMany(box.window_at + limits.window_ms - box.now, arrival.refuse_durably)
    return None


def _append(arrival: Arrival, box: Box, secret: bytes, state: MessageState, reason: str | None = None) -> Script[None]:
    box.last_seq += 1
    yield from run(
        NEW_INBOUND,
        message=arrival.message,
        mailbox=box.id,
        seq=box.last_seq,
        account=arrival.account,
        conversation=arrival.conversation,
        event_id=arrival.event_id,
        body_hash=keyed(secret, arrival.body_hash),
        principal=arrival.principal,
        channel=arrival.address.channel,
        kind=arrival.kind.value,
        human=int(arrival.human),
        hop=arrival.hop,
        body=arrival.text.encode(),
        state=state.value,
        reason=reason,
        session=box.session if arrival.kind is MessageKind.SIGNAL else None,
        address=str(arrival.address),
        sender_name=arrival.sender_name or None,
        directory=arrival.where.directory or None,
        repo=arrival.where.repo or None,
        token=arrival.token or None,
        chain=stored(arrival.chain) if arrival.chain else None,
        is_agents=int(bool(arrival.chain)),
        request=arrival.request or None,
        rank=None if arrival.rank is Rank.MEMBER else arrival.rank.value,
    )
    yield from run(
        GROW,
        mailbox=box.id,
        seq=box.last_seq,
        heavier=int(state is MessageState.WAITING),
        spoken=int(arrival.kind is not MessageKind.OBSERVED),
        window_at=box.window_at,
        window_count=box.window_count,
    )


def _signal(arrival: Arrival, box: Box, via: By) -> Script[None]:
    command = parse_command(arrival.text)
    row = yield from one(OPEN_TURN, session=box.session or "")
    if command is not None and command.verb in {CommandVerb.APPROVE, CommandVerb.DENY}:
        text = yield from decide_here(arrival, command, box.id, via)
    elif command is not None and command.verb is CommandVerb.STOP:
        text = stop_text(None) if row is None else (yield from _stop(arrival, box, row[0], via))
    elif command is None and (meant := meant_by(arrival.text)) is not None:
        text = suggestion_text(arrival.text, meant)
    else:
        text = status_text(_status(box, row))
    yield from _reply(arrival, box, text)


def _stop(arrival: Arrival, box: Box, turn: int, via: By) -> Script[str]:
    """Stop the open turn if the sender may; returns the text of the answer."""
    who = yield from giver(CommandVerb.STOP, given_now(arrival, box.id))
    session, actor = SessionId(box.session or ""), sender_as_actor(arrival, via)
    owns = who.speaker.place is CommandPlace.PRIVATE or (yield from are_own(who, session, frozenset({turn})))
    refused = judge(CommandVerb.STOP, who.speaker, owns=owns)
    if refused is not None:
        yield from action_sql.refuse(Act.TURN_STOPPED, actor, f"{session}/{turn}", refused.code)
        return refused.text
    yield from run(STOP, session=session, n=turn)
    yield from run(HURRY, mailbox=box.id)  # the turn may be in a retry delay, or waiting for a human
    if not owns:
        yield from action_sql.record(Act.TURN_STOPPED, actor, f"{session}/{turn}")
    return stop_text(turn)


def _refuse(
    arrival: Arrival, box: Box, limits: Limits, secret: bytes, refusal: MailboxFull | TooMany | Unfit
) -> Script[None]:
    """Record the refusal and notify the sender (D2).

    An unfit message counts towards the rate limit, which also limits the notices.
    """
    if isinstance(refusal, Unfit):
        box.window_count += 1
        told, reason = False, refusal.reason
    else:
        told = yield from _was_told(box, limits)
        reason = "mailbox_full" if isinstance(refusal, MailboxFull) else "rate_limited"
    yield from _append(arrival, box, secret, MessageState.REFUSED, reason)
    if not told:
        yield from _tell(arrival, box, refused_text(refusal))


def _was_told(box: Box, limits: Limits) -> Script[bool]:
    """Whether this mailbox refused a message within the window: one notice per window is enough."""
    newest = limits.window_messages_max * SIGNALS_SHARE + 1  # more than a window can hold
    since = box.now - limits.window_ms
    return (yield from one(REFUSED_LATELY, mailbox=box.id, newest=newest, since=since)) is not None


def _tell(arrival: Arrival, box: Box, text: str) -> Script[None]:
    """Reply with the reason if the platform has no way to report it (D2).

    Programs and unaddressed messages get no reply.
    """
    if arrival.human and arrival.kind is not MessageKind.OBSERVED and arrival.address.channel not in PULLED:
        yield from _reply(arrival, box, text)


def _reply(arrival: Arrival, box: Box, text: str) -> Script[None]:
    yield from insert_reply(
        NewReply(id=arrival.reply, text=text),
        mailbox=box.id,
        address=str(arrival.address),
        channel=arrival.address.channel,
        message=arrival.message,
        session=box.session,
    )


def _status(box: Box, row: Row | None) -> Status:
    if row is None:
        return Status(session=box.session, depth=box.depth, turn=None)
    turn, attempt, phase, stop_at, in_turn = row
    open_turn = {"turn": turn, "in_turn": in_turn, "attempt": attempt, "phase": phase}
    return Status(session=box.session, depth=box.depth, stopping=stop_at is not None, **open_turn)


def keyed(secret: bytes, value: bytes) -> bytes:
    return hmac.new(secret, value, hashlib.sha256).digest()[:16]


def tombstone_hash(secret: bytes, account: str, conversation: str, event_id: str) -> bytes:
    """A keyed hash of a message's identity. Parts are length-prefixed, so two identities never encode alike."""
    parts = (account.encode(), conversation.encode(), event_id.encode())
    return keyed(secret, b"".join(len(part).to_bytes(4, "big") + part for part in parts))
