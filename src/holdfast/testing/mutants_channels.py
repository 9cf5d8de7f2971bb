"""Guarantees towards platforms, people and other agents, broken on purpose: catching up, attachments, new ids of chats,
drafts, hops, links, and what operators ask for."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.channels.agent import AgentChannel
from holdfast.channels.receiving import AccountWatermark
from holdfast.inbox import agent_chain, attachment_sql, identity_sql
from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import Chain, TalksTo
from holdfast.inbox.channel import IntakeOutcome
from holdfast.inbox.chat_message import ChatMessage, conversation_of
from holdfast.inbox.mailbox import Claim
from holdfast.inbox.message import Arrival
from holdfast.inbox.router import InboundRouter
from holdfast.kernel.ids import AgentName, ReplyId
from holdfast.memory import recall, recaller
from holdfast.outbox import decided_sql, draft_sql, reply_sql
from holdfast.outbox.draft import Draft, DraftIntent, DraftState
from holdfast.outbox.post import Post
from holdfast.store import upkeep_sql
from holdfast.store.script import Script, one, rows, run
from holdfast.testing import agent_messages
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.mutant import Patch, mutant
from holdfast.turns import approval_sql, turn_sql
from holdfast.turns.turn import OutgoingMessage, Turn

STREAM, DRAFTS, AGENTS = ChannelArea.STREAM, ChannelArea.DRAFTS, ChannelArea.AGENTS
LINKS, MOVES = ChannelArea.LINKS, ChannelArea.MOVES
RESEND, DECIDE = ChannelArea.RESEND, ChannelArea.DECIDE


def _replaced(sql: str, old: str, new: str) -> str:
    assert old in sql, old
    return sql.replace(old, new)


# --- catching up ---------------------------------------------------------------------------------------------------


@mutant("I23", "I1", budget=30, area=STREAM, short=5)
def mark_before_message() -> Sequence[Patch]:
    """A conversation counts as read before its message is in a mailbox."""
    honest = InboundRouter.receive

    async def broken(intake: InboundRouter, message: ChatMessage) -> IntakeOutcome:
        if message.position is not None:
            conversation = conversation_of(message.chat, message.thread)
            await intake.note_read(message.account, conversation, message.position, message.event_id)
        return await honest(intake, message)

    return [(InboundRouter, "receive", broken)]


@mutant("I23", "I1", budget=30, area=STREAM, short=5)
def first_words_unasked() -> Sequence[Patch]:
    """The first messages of a conversation, sent while the bot was disconnected, are not fetched."""
    return [(AccountWatermark, "since_ms", property(lambda _watermark: None))]


@mutant("I28", budget=60, area=STREAM, short=15)
def attachment_goes_with_the_first() -> Sequence[Patch]:
    """An attachment is deleted with its first message, although another message has the same bytes."""
    kept = " and not exists (select 1 from enclosure where enclosure.hash = :hash)"
    return [(attachment_sql, "DROP_UNUSED", _replaced(attachment_sql.DROP_UNUSED, kept, ""))]


@mutant("I28", budget=20, area=STREAM, short=54)
def attachment_outlives_its_message() -> Sequence[Patch]:
    """An attachment stays although its message was deleted."""
    return [
        (
            attachment_sql,
            "DROP_UNUSED",
            _replaced(attachment_sql.DROP_UNUSED, "where hash = :hash", "where 1 = 0 and hash = :hash"),
        )
    ]


@mutant("I28", budget=10, area=STREAM, short=60)
def pruning_takes_recent_attachments() -> Sequence[Patch]:
    """Pruning old messages deletes attachments of answered messages that are not old."""
    honest = attachment_sql.drop_enclosures

    def broken(messages: Iterable[str]) -> Script[int]:
        if not (old := list(messages)):
            return 0
        answered = yield from rows("select message from inbound where state = 'answered'")
        return (yield from honest([*old, *(row[0] for row in answered)]))

    return [(upkeep_sql, "drop_enclosures", broken)]


@mutant("I28", budget=10, area=STREAM, short=5)
def pruning_leaves_attachments() -> Sequence[Patch]:
    """Attachments of a pruned message stay forever."""

    def broken(_messages: Iterable[str]) -> Script[int]:
        yield from ()
        return 0

    return [(upkeep_sql, "drop_enclosures", broken)]


@mutant("I27", "I15", budget=30, area=STREAM, short=60)
def replies_stay_behind() -> Sequence[Patch]:
    """A chat gets a new id, and pending replies are sent to the old one."""
    nothing = "update inbound set address = :new where mailbox = :mailbox and address = :old and 1 = 0"
    stay = "update reply set address = :new where address = :old and 1 = 0"
    return [(identity_sql, "REDIRECT_MAIL", nothing), (identity_sql, "REDIRECT_REPLIES", stay)]


@mutant("I27", "I1", "I3", "I15", budget=30, area=MOVES, short=17)
def used_address_taken_over() -> Sequence[Patch]:
    """An address at which a person spoke is given to another chat, and its mailbox is dropped."""

    def broken(mine: str, new: str) -> Script[bool | None]:
        yield from one(identity_sql.NEW_ALIAS, address=new, mailbox=mine)
        theirs = ((yield from one(identity_sql.BOX_OF, address=new)) or ("",))[0]
        if theirs != mine:
            yield from run(identity_sql.POINT, mine=mine, theirs=theirs)
        return True

    return [(identity_sql, "_alias", broken)]


# --- drafts --------------------------------------------------------------------------------------------------------


@mutant("I24", budget=10, area=DRAFTS, short=41)
def draft_without_record() -> Sequence[Patch]:
    """A draft is sent without a record that it may be in the chat."""

    def broken(intent: DraftIntent) -> Script[Draft | None]:
        yield from draft_sql._require_open(intent)  # noqa: SLF001 - what is broken
        return Draft(id=intent.id, fence=intent.fence, state=DraftState.INTENDED, address=intent.address)

    return [(draft_sql, "intend_draft", broken)]


@mutant("I24", budget=20, area=DRAFTS, short=89)
def draft_left_standing() -> Sequence[Patch]:
    """A reply is posted beside the draft of its turn, which stays unchanged."""

    def broken(n: int) -> Script[None]:
        yield from one(draft_sql.HAND_OVER, n=n)

    return [(reply_sql, "hand_over", broken)]


@mutant("I24", "I10", budget=120, area=DRAFTS, first=1353)
def reply_before_the_last_edit() -> Sequence[Patch]:
    """A reply replaces a draft while an edit of the draft may still arrive."""
    free = (
        _replaced(reply_sql.HEADS, f"and not {draft_sql.DRAFT_IS_HELD}", ""),
        _replaced(draft_sql.HAND_OVER, "and held_until <= :now", "and :now = :now"),
    )
    return [(reply_sql, "HEADS", free[0]), (draft_sql, "HAND_OVER", free[1])]


# --- agents --------------------------------------------------------------------------------------------------------


@mutant("I25", budget=10, area=AGENTS, short=9)
def hops_begin_again() -> Sequence[Patch]:
    """A message to another agent has the hop count zero."""
    honest = AgentChannel._arrival  # noqa: SLF001 - what is broken

    def broken(channel: AgentChannel, post: Post, address: Address, hop: int) -> Arrival:
        return replace(honest(channel, post, address, hop), hop=0)

    return [(AgentChannel, "_arrival", broken)]


@mutant("I25", budget=10, area=AGENTS, short=9)
def letters_count_one_hop() -> Sequence[Patch]:
    """A message to another agent counts one hop, however many there were before it."""
    honest = reply_sql.send_messages

    def broken(claim: Claim, turn: Turn, messages: Sequence[OutgoingMessage]) -> Script[None]:
        yield from honest(claim, replace(turn, hop=0), messages)

    return [(turn_sql, "send_messages", broken)]


@mutant("I25", budget=30, area=AGENTS, short=35)
def anybody_is_messaged() -> Sequence[Patch]:
    """An agent messages every other agent, listed or not."""

    def broken(agent: AgentName, _chain: Chain, _talks_to: TalksTo) -> tuple[AgentName, ...]:
        return tuple(AgentName(name) for name in agent_messages.AGENTS if name != agent)

    return [(agent_chain, "reachable", broken)]


@mutant("I25", budget=60, area=AGENTS, short=9)
def chain_forgotten() -> Sequence[Patch]:
    """A message does not say through which agents it came, so the turn that it begins has every tool."""
    honest = AgentChannel._arrival  # noqa: SLF001 - what is broken

    def broken(channel: AgentChannel, post: Post, address: Address, hop: int) -> Arrival:
        return replace(honest(channel, post, address, hop), chain=())

    return [(AgentChannel, "_arrival", broken)]


@mutant("I6", budget=10, area=AGENTS, short=9)
def agent_taken_for_a_person() -> Sequence[Patch]:
    """Recollections of an agent's query for one person are shown to its query for another person."""

    def broken(_principal: str) -> bool:
        return False

    return [(recall, "is_agent", broken)]


@mutant("I25", "I1", "I2", budget=40, area=AGENTS, short=19)
def agent_message_with_new_ids() -> Sequence[Patch]:
    """A message to another agent has another id in each attempt, so a message that is sent twice arrives twice."""
    honest = AgentChannel._arrival  # noqa: SLF001 - what is broken

    def broken(channel: AgentChannel, post: Post, address: Address, hop: int) -> Arrival:
        arrival = honest(channel, post, address, hop)
        return replace(arrival, event_id=f"{post.nonce}.{post.attempt}" if post.attempt > 1 else post.nonce)

    return [(AgentChannel, "_arrival", broken)]


# --- people --------------------------------------------------------------------------------------------------------


@mutant("I26", budget=120, area=LINKS, short=112)
def prefetch_outlives_the_link() -> Sequence[Patch]:
    """Recollections prefetched for two linked people are shown to one of them after the unlink."""
    honest = recaller._found  # noqa: SLF001 - what is broken

    def broken(key: Any, asked: Any, ahead: Any, policy: Any) -> Any:  # noqa: ANN401
        if ahead is not None:
            ahead.kin = asked.kin
        return honest(key, asked, ahead, policy)

    return [(recaller, "_found", broken)]


@mutant("I26", budget=10, area=LINKS, short=61)
def unlink_keeps_the_person() -> Sequence[Patch]:
    """A removed link still counts."""
    return [(identity_sql, "UNLINK", _replaced(identity_sql.UNLINK, "where principal", "where 1 = 0 and principal"))]


@mutant("I29", "I10", budget=20, area=RESEND, short=9)
def resend_twice() -> Sequence[Patch]:
    """A reply that an operator resends is resent until the platform answers."""
    fresh = _replaced(decided_sql.AGAIN, "doubts = case when doubts = 0 then 0 else 2 end", "doubts = 0")
    return [(decided_sql, "AGAIN", fresh)]


@mutant("I29", budget=20, area=RESEND, short=9)
def resend_does_nothing() -> Sequence[Patch]:
    """An operator's resend is confirmed, and nothing is sent."""

    def broken(_reply: ReplyId, **_named: object) -> Script[str]:
        yield from ()
        return "pending"

    return [(reply_sql, "resend_reply", broken)]


@mutant("I29", "I19", budget=60, area=DECIDE, short=15)
def later_decision_wins() -> Sequence[Patch]:
    """The last decision about an approval counts instead of the first."""
    return [(approval_sql, "DECIDE", _replaced(approval_sql.DECIDE, "and decided_at is null", ""))]
