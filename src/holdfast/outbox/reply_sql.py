"""The reply ledger: replies are claimed in order per chat and settled under the fence (owner, part, attempt) (D26).

A reply is `attempting`, with its owner, before its first byte is sent. A reply whose owner is gone may have been
posted: it stays in doubt and never looks unsent again. An uncertain or failed reply does not block later replies.
A message from one agent to another is a reply too, inserted with the journal step that sends it (D9).
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.inbox.address import Address, parse
from holdfast.inbox.agent_chain import loaded, stored
from holdfast.inbox.mailbox import Claim
from holdfast.kernel.errors import InvalidInput, ReplyNotFound
from holdfast.kernel.ids import AgentName, Instant, MessageId, NodeId, ReplyId
from holdfast.monitor.attempt import KEPT_MAX, AttemptKind
from holdfast.monitor.attempt_sql import OF_REPLY, answer_of, record_cut_off, trim_attempts
from holdfast.outbox.decided_sql import send_again
from holdfast.outbox.draft_sql import DRAFT_IS_HELD, HAS_DRAFT, hand_over
from holdfast.outbox.post import PULLED, OnDoubt, ReplyState
from holdfast.outbox.reply import (
    NOBODY_KNOWS,
    Kept,
    PostedReply,
    ReplyClaim,
    ReplySettlement,
    chat_of,
)
from holdfast.store.script import Columns, Script, claim_name, locked_verb, one, plain, rows, run, utf8, verb
from holdfast.turns.turn import NewReply, OutgoingMessage, Turn

FIRST_OF_ITS_ADDRESS = """
not exists (select 1 from reply as earlier
             where earlier.address = reply.address and earlier.n < reply.n
               and earlier.state in ('pending', 'attempting'))"""
HEADS = f"""
select n, address, {HAS_DRAFT}, due_at from reply
 where agent = :agent and channel = :channel and state = 'pending' and due_at <= :now
   and (due_at, n) > (:after_due, :after)
   and exists (select 1 from node where node.id = :node) and {FIRST_OF_ITS_ADDRESS} and not {DRAFT_IS_HELD}
 order by due_at, n limit :limit /*skip locked*/"""
TAKE = """
update reply
   set state = 'attempting', attempt = attempt + 1, owner = :node, claim = :name, settled_at = null,
       sent_at = case when doubts = 1 then sent_at else cast(:now as int8) end
 where n = :n and state = 'pending'"""
CLAIM = Columns(
    ReplyClaim,
    "reply",
    without=("node",),
    address=("reply.address", parse),
    text=("reply.body", utf8),
    in_reply_to="case when inbound.hop = 0 then inbound.event_id else '' end",
    chain=("reply.chain", loaded),
    is_answer="""
       exists (select 1 from address where address.address = reply.address and address.mailbox_id = reply.mailbox)""",
    doubtful_for_ms="cast(:now as int8) - coalesce(reply.sent_at, cast(:now as int8))",
    waited_ms="cast(:now as int8) - reply.at",
    is_followed="""
       exists (select 1 from reply as other
                where other.agent = reply.agent and other.channel = reply.channel and other.state = 'pending')""",
    draft="case when reply.draft = 'standing' then reply.draft_id else '' end",
)
HELD = f"""
select {CLAIM}
  from reply left join inbound on inbound.message = reply.message and inbound.address = reply.address
 where reply.owner = :node and reply.claim = :name and reply.state = 'attempting' order by reply.n"""
# An edit of a draft may be repeated, so its doubt lasts only until the next edit.
EDITS = "(part = 0 and draft is not null and draft = 'standing')"
HOLD_DOUBTFUL = f"""
update reply set state = 'uncertain', settled_at = :now, reason = :reason
 where agent = :agent and channel = :channel and state = 'pending' and doubts = 1 and not {EDITS}"""
SETTLE = """
update reply
   set state = :state, part = :part, doubts = :doubts, attempt = cast(:attempts as int8),
       due_at = cast(:now as int8) + cast(:delay_ms as int8),
       owner = case when :goes_on = 1 then owner end, claim = case when :goes_on = 1 then claim end,
       sent_at = case when :goes_on = 1 then cast(:now as int8) else sent_at end,
       settled_at = case when :settled = 1 then cast(:now as int8) end,
       receipt = case when cast(:receipt as text) is null then receipt
                      else coalesce(receipt || ' ', '') || cast(:receipt as text) end,
       reason = cast(:reason as text), draft = coalesce(cast(:draft as text), draft)
 where n = :n and state = 'attempting' and owner = :node and attempt = :attempt and part = :sent
returning n"""
STANDING = "select state, part, attempt, owner from reply where n = :n"
# The next due reply of each account with pending replies: a few index seeks each, however many replies wait.
WAITING_REPLIES = """
with recursive waiting (agent, channel) as (
  select * from (select agent, channel from reply where state = 'pending' order by agent, channel limit 1) as first_one
  union all
  select (select reply.agent from reply
           where state = 'pending' and (agent, channel) > (waiting.agent, waiting.channel)
           order by agent, channel limit 1),
         (select reply.channel from reply
           where state = 'pending' and (agent, channel) > (waiting.agent, waiting.channel)
           order by agent, channel limit 1)
    from waiting where waiting.agent is not null)
select agent, channel, (select min(due_at) from reply
                         where reply.agent = waiting.agent and reply.channel = waiting.channel
                           and state = 'pending') as due_at
  from waiting where agent is not null"""
# The first due reply of each account with pending replies; a reply waits for those before it at its address.
NEXT_DUE = f"""
select waiting.agent, waiting.channel, cast(:now as int8),
       (select due_at from reply
         where reply.agent = waiting.agent and reply.channel = waiting.channel and state = 'pending'
           and {FIRST_OF_ITS_ADDRESS}
         order by due_at limit 1)
  from ({WAITING_REPLIES}) as waiting"""
WAS_SENDING = "it was being sent when its process ended"
# An interrupted send may have been posted: it is resent once, and never a third time. An edit of a draft is repeated.
CUT_OFF = f"""
update reply
   set state = case when doubts = 0 or {EDITS} then 'pending' else 'uncertain' end,
       doubts = case when doubts = 0 then 1 when {EDITS} then doubts else 2 end,
       owner = null, claim = null, due_at = :now,
       reason = '{WAS_SENDING}',
       settled_at = case when doubts = 0 or {EDITS} then null else cast(:now as int8) end"""
OF_NODE, OF_OTHERS = "owner = :node", "owner is not null and owner <> :node"
DOUBT_REPLIES = f"{CUT_OFF} where {OF_NODE}"
DOUBT_ALL_REPLIES = f"{CUT_OFF} where {OF_OTHERS}"
ORPHANED_REPLY = "owner is not null and not exists (select 1 from node where node.id = reply.owner)"
DOUBT_ORPHANED_REPLIES = f"{CUT_OFF} where {ORPHANED_REPLY}"
# Blanking a reply during its send voids the claim, so no further piece is sent.
BLANK = """
update reply
   set body = :blank, owner = null, claim = null,
       settled_at = case when state in ('pending', 'attempting') then :now else settled_at end,
       reason = case when state in ('pending', 'attempting') then 'its words were deleted' else reason end,
       state = case when state = 'pending' and doubts = 0 then 'failed'
                    when state in ('pending', 'attempting') then 'uncertain' else state end"""
FIND = "select n, state, length(body) from reply where id = :id /*lock*/"
POSTED = Columns(PostedReply, parts_sent="part")
ONE = f"select {POSTED} from reply where id = :id"
PAGE = f"""
select {POSTED} from reply
 where n < :before and (:state = '' or state = :state) and (:agent = '' or agent = :agent)
   and (:channel = '' or channel = :channel)
 order by n desc limit :limit"""
# Replies that are not delivered are few, and have an index by state.
PAGE_OF_STATE = f"""
select {POSTED} from reply
 where state <> 'delivered' and state = :state and n < :before and (:agent = '' or agent = :agent)
   and (:channel = '' or channel = :channel)
 order by n desc limit :limit"""
NO_LIMIT = 2**62
HEADS_PAGES_MAX = 8  # the page size doubles, so that a chat with many threads hides no other chat
OVER = frozenset({ReplyState.DELIVERED, ReplyState.UNCERTAIN, ReplyState.FAILED})


@locked_verb(claim_name)
def claim_replies(
    node: NodeId,
    agent: AgentName,
    channel: str,
    *,
    name: str,
    limit: int,
    on_doubt: OnDoubt = OnDoubt.RESEND,
    resting: Collection[str] = (),
) -> Script[tuple[ReplyClaim, ...]]:
    """Claim the first due reply of each address, at most one per chat and none of a chat in `resting`."""
    again = yield from rows(HELD, node=node, name=name)
    if again:
        return tuple(CLAIM.value(row, node=node) for row in again)
    if on_doubt is OnDoubt.HOLD:
        yield from run(HOLD_DOUBTFUL, agent=agent, channel=channel, reason=NOBODY_KNOWS)
    heads = yield from _heads(node, agent, channel, limit, resting)
    for n, is_drafted in heads:
        yield from run(TAKE, n=n, node=node, name=name)
        if is_drafted:
            yield from hand_over(n)
    taken = (yield from rows(HELD, node=node, name=name)) if heads else []
    return tuple(CLAIM.value(row, node=node) for row in taken)


def _heads(
    node: NodeId, agent: AgentName, channel: str, limit: int, resting: Collection[str]
) -> Script[list[tuple[int, bool]]]:
    """The first due reply of each chat that is not in `resting`, and whether it has a draft."""
    by_chat: dict[str, tuple[int, bool]] = {}
    page, due, n = limit + len(resting), -1, 0
    for _ in range(HEADS_PAGES_MAX):
        found = yield from rows(HEADS, agent=agent, channel=channel, node=node, after_due=due, after=n, limit=page)
        for n, address, is_drafted, due in found:  # noqa: B007 - the next page starts after the last row
            if (chat := chat_of(address)) not in resting:
                by_chat.setdefault(chat, (n, is_drafted))
        if len(found) < page or len(by_chat) >= limit:
            break
        page *= 2
    return list(by_chat.values())[:limit]


@verb
def settle_reply(claim: ReplyClaim, settlement: ReplySettlement) -> Script[Kept]:
    """Settle a claim. A lost claim changes nothing; a repeated settlement returns the first result."""
    goes_on, attempts = settlement.state is ReplyState.ATTEMPTING, _attempts(claim, settlement)
    settled = yield from one(
        SETTLE,
        n=claim.n,
        node=claim.node,
        attempt=claim.attempt,
        sent=claim.part,
        state=settlement.state.value,
        part=settlement.part,
        doubts=settlement.doubts,
        attempts=attempts,
        delay_ms=settlement.delay_ms,
        goes_on=int(goes_on),
        settled=int(settlement.state in OVER),
        receipt=plain(settlement.receipt),
        reason=plain(settlement.vendor.kept(settlement.reason)),
        draft=None if settlement.draft is None else settlement.draft.value,
    )
    if settled is not None:
        yield from _record_attempt(claim, settlement)
    else:
        row = yield from one(STANDING, n=claim.n)
        if row != (settlement.state.value, settlement.part, attempts, claim.node if goes_on else None):
            return Kept.VOID
    return Kept.GOES_ON if goes_on else Kept.DONE


def _record_attempt(claim: ReplyClaim, settlement: ReplySettlement) -> Script[None]:
    """Store the attempt if no piece was sent by it; a piece that was sent has a receipt."""
    if settlement.part > claim.part or settlement.reason is None:
        return
    outcome = {ReplyState.FAILED: "failed", ReplyState.UNCERTAIN: "uncertain"}.get(settlement.state)
    outcome = outcome or ("uncertain" if settlement.doubts > claim.doubts else "failed")
    place = {
        "n": claim.n,
        "node": claim.node,
        "attempt": claim.attempt,
        "part": claim.part,
        "doubted": int(claim.doubts == 1),
    }
    yield from run(OF_REPLY, **place, **answer_of(outcome, settlement.reason, settlement.vendor))
    if claim.attempt > KEPT_MAX:
        yield from trim_attempts(AttemptKind.REPLY, [claim.n])


def doubt_replies(node: str) -> Script[None]:
    """The replies that a node was sending when it ended are in doubt."""
    yield from record_cut_off(OF_NODE, WAS_SENDING, node)
    yield from run(DOUBT_REPLIES, node=node)


def doubt_replies_of_others(node: str) -> Script[None]:
    yield from record_cut_off(OF_OTHERS, WAS_SENDING, node)
    yield from run(DOUBT_ALL_REPLIES, node=node)


def doubt_orphaned_replies() -> Script[None]:
    yield from record_cut_off(ORPHANED_REPLY, WAS_SENDING)
    yield from run(DOUBT_ORPHANED_REPLIES)


def _attempts(claim: ReplyClaim, settlement: ReplySettlement) -> int:
    """The attempt count to store; attempts are counted per piece."""
    if settlement.state in OVER or settlement.part == claim.part:
        return claim.attempt
    return 1 if settlement.state is ReplyState.ATTEMPTING else 0


@verb
def next_reply_due() -> Script[tuple[Instant, dict[tuple[AgentName, str], Instant]]]:
    """The store's time, and the due time of each bot account's next reply, whether or not the account is configured."""
    found = yield from rows(NEXT_DUE)
    now = Instant(found[0][2] if found else 0)
    return now, {(AgentName(agent), channel): Instant(at) for agent, channel, _, at in found if at is not None}


@verb
def resend_reply(wanted: ReplyId, by: By = PROGRAM) -> Script[str]:
    row = yield from one(FIND, id=wanted)
    if row is None:
        raise _not_found(wanted)
    n, state, size = row
    if state in {"pending", "attempting"}:
        return str(state)  # already queued
    if state == "delivered":
        raise InvalidInput(f"reply {wanted} is delivered; only an uncertain or failed one can be sent again")
    if not size:
        raise InvalidInput(f"the words of reply {wanted} were deleted, so there is nothing to send", reply=wanted)
    yield from send_again(n)
    yield from action_sql.record(Act.REPLY_RESENT, by, wanted)
    return "pending"


@verb
def read_reply(wanted: ReplyId) -> Script[PostedReply]:
    found = yield from POSTED.one(ONE, id=wanted)
    if found is None:
        raise _not_found(wanted)
    return found


def _not_found(wanted: str) -> ReplyNotFound:
    return ReplyNotFound(f"there is no reply {wanted[:80]!r}", reply=wanted[:80])


@verb
def list_replies(
    *, state: str | None = None, agent: str | None = None, channel: str | None = None, after: int = 0, limit: int = 100
) -> Script[list[PostedReply]]:
    wanted = {"state": state or "", "agent": agent or "", "channel": channel or ""}
    page = PAGE if state in {None, "", ReplyState.DELIVERED.value} else PAGE_OF_STATE
    return (yield from POSTED.rows(page, before=after or NO_LIMIT, limit=limit, **wanted))


# --- new replies ------------------------------------------------------------------------------------

NEW_REPLY = """
insert into reply (id, mailbox, session, turn, message, agent, channel, address, hop, chain, state, due_at, at,
                   body)
values (:id, :mailbox, :session, :turn, :message, (select agent from mailbox where id = :mailbox), :channel,
        coalesce((select address from inbound where message = :message), :address),
        coalesce((select hop from inbound where message = :message), 0),
        (select chain from turn where session = :session and n = :turn), :state, :now, :now, :body)"""


def insert_reply(
    reply: NewReply,
    *,
    mailbox: str,
    address: str,
    channel: str,
    message: str,
    session: str | None,
    turn: int | None = None,
) -> Script[None]:
    yield from run(
        NEW_REPLY,
        id=reply.id,
        mailbox=mailbox,
        session=session,
        turn=turn,
        message=message,
        channel=channel,
        address=address,
        state=(ReplyState.DELIVERED if channel in PULLED else ReplyState.PENDING).value,
        body=reply.text.encode(),
    )


AGENT_CHANNEL = "agent"
NEW_MESSAGE = """
insert into reply (id, mailbox, session, turn, message, agent, channel, address, hop, chain, state, due_at, at,
                   body)
values (:id, :mailbox, :session, :turn, :message, :agent, :channel, :address, :hop, :chain, :state, :now, :now,
        :body)"""


def send_messages(claim: Claim, turn: Turn, messages: Sequence[OutgoingMessage]) -> Script[None]:
    """Insert the messages of a turn; their hop count is one more than that of the messages the turn answers."""
    answered = turn.messages[-1] if turn.messages else MessageId("")
    for message in messages:
        yield from run(
            NEW_MESSAGE,
            id=message.id,
            mailbox=claim.mailbox,
            session=turn.session,
            turn=turn.n,
            message=answered,
            agent=claim.agent,
            channel=AGENT_CHANNEL,
            address=message.address,
            hop=turn.hop + 1,
            chain=stored(turn.chain) if turn.chain else None,
            state=ReplyState.PENDING.value,
            body=message.text.encode(),
        )


# --- the place of an answer ---------------------------------------------------------------------------

DESTINATION = """
select coalesce(inbound.address, mailbox.address), inbound.event_id
  from inbound join mailbox on mailbox.id = inbound.mailbox where inbound.message = :message"""


class Destination(NamedTuple):
    """Where the answer to a message goes, for what is shown while its turn runs."""

    address: Address
    event_id: str


@verb
def find_destination(message: MessageId) -> Script[Destination | None]:
    """The destination; None if the message was forgotten or pruned meanwhile."""
    row = yield from one(DESTINATION, message=message)
    return None if row is None else Destination(parse(row[0]), row[1])
