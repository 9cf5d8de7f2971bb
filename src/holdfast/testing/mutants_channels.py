"""Guarantees towards platforms, people and other agents, broken on purpose: catching up, attachments, new ids of chats,
drafts, hops, links, and what operators ask for."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.channels.attendance import Attendance
from holdfast.core import agent_chain, recall
from holdfast.core.agent_chain import Chain, TalksTo
from holdfast.core.drafting import Draft, DraftIntent, DraftState
from holdfast.core.ids import AgentName, ReplyId
from holdfast.core.key import Address
from holdfast.core.mailbox import Claim
from holdfast.core.outgoing import Post
from holdfast.core.turn import OutgoingMessage, Turn
from holdfast.core.visibility import is_group
from holdfast.loops import recaller
from holdfast.loops.gateway import Received
from holdfast.loops.intake import Reception
from holdfast.loops.liaison import AgentChannel
from holdfast.ports.channel import ChatMessage, Verdict, conversation_of
from holdfast.stores.script import Script, one, rows, run
from holdfast.stores.store import SqlStore
from holdfast.stores.verbs import approvals, drafts, identity, outgoing, reading, replies, turns, upkeep
from holdfast.testing import letters
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.mutant import Patch, mutant

ROOMS, DRAFTS, AGENTS = ChannelArea.ROOMS, ChannelArea.DRAFTS, ChannelArea.AGENTS
LINKS, MOVES = ChannelArea.LINKS, ChannelArea.MOVES
RESEND, DECIDE = ChannelArea.RESEND, ChannelArea.DECIDE


def _replaced(sql: str, old: str, new: str) -> str:
    assert old in sql, old
    return sql.replace(old, new)


# --- catching up ---------------------------------------------------------------------------------------------------


@mutant("I23", "I1", budget=30, area=ROOMS)
def mark_before_message() -> Sequence[Patch]:
    """A conversation counts as read before its message is in a mailbox."""
    honest = Reception.receive

    async def broken(intake: Reception, message: ChatMessage) -> Verdict:
        if message.position is not None:
            conversation = conversation_of(message.chat, message.thread)
            await intake.note_read(message.account, conversation, message.position, message.event_id)
        return await honest(intake, message)

    return [(Reception, "receive", broken)]


@mutant("I23", "I1", budget=30, area=ROOMS)
def first_words_unasked() -> Sequence[Patch]:
    """What was said for the first time in a conversation while the bot was away is not asked for."""
    return [(Attendance, "since_ms", property(lambda _attendance: None))]


@mutant("I28", budget=60, area=ROOMS, first=465)
def attachment_goes_with_the_first() -> Sequence[Patch]:
    """Bytes are deleted with the first message that brought them, though another one brought them too."""
    kept = " and not exists (select 1 from enclosure where enclosure.hash = :hash)"
    return [(reading, "DROP_UNUSED", _replaced(reading.DROP_UNUSED, kept, ""))]


@mutant("I28", budget=20, area=ROOMS, first=54)
def attachment_outlives_its_message() -> Sequence[Patch]:
    """Bytes stay although the words that they came with were deleted."""
    return [
        (reading, "DROP_UNUSED", _replaced(reading.DROP_UNUSED, "where hash = :hash", "where 1 = 0 and hash = :hash"))
    ]


@mutant("I28", budget=10, area=ROOMS)
def pruning_takes_recent_attachments() -> Sequence[Patch]:
    """Pruning old messages deletes what came with answered ones that are not old."""
    honest = reading.drop_enclosures

    def broken(messages: Iterable[str]) -> Script[int]:
        if not (old := list(messages)):
            return 0
        answered = yield from rows("select message from inbound where state = 'answered'")
        return (yield from honest([*old, *(row[0] for row in answered)]))

    return [(upkeep, "drop_enclosures", broken)]


@mutant("I28", budget=10, area=ROOMS)
def pruning_leaves_attachments() -> Sequence[Patch]:
    """What came with a message that was pruned stays for ever."""

    def broken(_messages: Iterable[str]) -> Script[int]:
        yield from ()
        return 0

    return [(upkeep, "drop_enclosures", broken)]


@mutant("I27", "I15", budget=30, area=ROOMS)
def replies_stay_behind() -> Sequence[Patch]:
    """A chat gets a new id, and what is to be answered there is answered at the old one."""
    nothing = "update inbound set address = :new where mailbox = :mailbox and address = :old and 1 = 0"
    stay = "update reply set address = :new where address = :old and 1 = 0"
    return [(identity, "REDIRECT_MAIL", nothing), (identity, "REDIRECT_REPLIES", stay)]


@mutant("I27", "I1", "I3", "I15", budget=30, area=MOVES)
def used_address_taken_over() -> Sequence[Patch]:
    """An address at which somebody spoke is given to another chat, and its mailbox is dropped."""

    def broken(mine: str, new: str) -> Script[bool | None]:
        yield from one(identity.NEW_ALIAS, address=new, mailbox=mine)
        theirs = ((yield from one(identity.BOX_OF, address=new)) or ("",))[0]
        if theirs != mine:
            yield from run(identity.POINT, mine=mine, theirs=theirs)
        return True

    return [(identity, "_alias", broken)]


# --- drafts --------------------------------------------------------------------------------------------------------


@mutant("I24", budget=10, area=DRAFTS)
def draft_without_record() -> Sequence[Patch]:
    """A draft leaves, and nothing says that it may stand in the chat."""

    def broken(intent: DraftIntent) -> Script[Draft | None]:
        yield from drafts._require_open(intent)  # noqa: SLF001 - what is broken
        return Draft(id=intent.id, fence=intent.fence, state=DraftState.INTENDED, address=intent.address)

    return [(drafts, "intend_draft", broken)]


@mutant("I24", budget=20, area=DRAFTS)
def draft_left_standing() -> Sequence[Patch]:
    """A reply is posted beside the draft of its turn, which stays as it is."""

    def broken(n: int) -> Script[None]:
        yield from one(drafts.HAND_OVER, n=n)

    return [(replies, "hand_over", broken)]


@mutant("I24", "I10", budget=120, area=DRAFTS, first=1417)
def reply_before_the_last_edit() -> Sequence[Patch]:
    """A reply takes the place of a draft while an edit of it may still be on its way."""
    free = (
        _replaced(replies.HEADS, f"and not {drafts.DRAFT_IS_HELD}", ""),
        _replaced(drafts.HAND_OVER, "and held_until <= :now", "and :now = :now"),
    )
    return [(replies, "HEADS", free[0]), (drafts, "HAND_OVER", free[1])]


# --- agents --------------------------------------------------------------------------------------------------------


@mutant("I25", budget=10, area=AGENTS)
def hops_begin_again() -> Sequence[Patch]:
    """What an agent hands over looks as if no agent had passed it on."""
    honest = AgentChannel._received  # noqa: SLF001 - what is broken

    def broken(channel: AgentChannel, post: Post, address: Address, hop: int) -> Received:
        return replace(honest(channel, post, address, hop), hop=0)

    return [(AgentChannel, "_received", broken)]


@mutant("I25", budget=10, area=AGENTS)
def letters_count_one_hop() -> Sequence[Patch]:
    """A message to another agent counts one hop, however many there were before it."""
    honest = outgoing.send_messages

    def broken(claim: Claim, turn: Turn, messages: Sequence[OutgoingMessage]) -> Script[None]:
        yield from honest(claim, replace(turn, hop=0), messages)

    return [(turns, "send_messages", broken)]


@mutant("I25", budget=30, area=AGENTS)
def anybody_is_messaged() -> Sequence[Patch]:
    """An agent writes to every other one, listed or not."""

    def broken(agent: AgentName, _chain: Chain, _talks_to: TalksTo) -> tuple[AgentName, ...]:
        return tuple(AgentName(name) for name in letters.AGENTS if name != agent)

    return [(agent_chain, "reachable", broken)]


@mutant("I25", budget=60, area=AGENTS)
def chain_forgotten() -> Sequence[Patch]:
    """A message does not say through which agents it came, so the turn that it begins has every tool."""
    honest = AgentChannel._received  # noqa: SLF001 - what is broken

    def broken(channel: AgentChannel, post: Post, address: Address, hop: int) -> Received:
        return replace(honest(channel, post, address, hop), chain=())

    return [(AgentChannel, "_received", broken)]


@mutant("I6", budget=10, area=AGENTS)
def agent_taken_for_a_person() -> Sequence[Patch]:
    """What an agent asks for one person is recalled wherever it asks for another."""

    def broken(_principal: str) -> bool:
        return False

    def alone(address: str, _principal: str, *, shared: bool = False) -> bool:
        return shared or is_group(address)

    return [(recall, "is_agent", broken), (recaller, "is_chat_alone", alone)]


@mutant("I25", "I1", "I2", budget=40, area=AGENTS)
def letter_with_a_new_id_each_time() -> Sequence[Patch]:
    """A message to another agent has another id in each attempt, so one that is sent twice arrives twice."""
    honest = AgentChannel._received  # noqa: SLF001 - what is broken

    def broken(channel: AgentChannel, post: Post, address: Address, hop: int) -> Received:
        received = honest(channel, post, address, hop)
        return replace(received, event_id=f"{post.nonce}.{post.attempt}" if post.attempt > 1 else post.nonce)

    return [(AgentChannel, "_received", broken)]


# --- people --------------------------------------------------------------------------------------------------------


@mutant("I26", budget=120, area=LINKS, first=1082)
def prefetch_outlives_the_link() -> Sequence[Patch]:
    """What was looked up ahead for two linked people is shown to one of them after they were unlinked."""
    honest = recaller._found  # noqa: SLF001 - what is broken

    def broken(key: Any, asked: Any, ahead: Any, policy: Any) -> Any:  # noqa: ANN401
        if ahead is not None:
            ahead.kin = asked.kin
        return honest(key, asked, ahead, policy)

    return [(recaller, "_found", broken)]


@mutant("I26", budget=10, area=LINKS)
def unlink_keeps_the_person() -> Sequence[Patch]:
    """A link that was taken back still counts."""
    return [(identity, "UNLINK", _replaced(identity.UNLINK, "where principal", "where 1 = 0 and principal"))]


@mutant("I29", "I10", budget=20, area=RESEND)
def resend_twice() -> Sequence[Patch]:
    """What an operator sends again is sent again and again until the platform answers."""
    fresh = _replaced(replies.AGAIN, "doubts = case when doubts = 0 then 0 else 2 end", "doubts = 0")
    return [(replies, "AGAIN", fresh)]


@mutant("I29", budget=20, area=RESEND)
def resend_does_nothing() -> Sequence[Patch]:
    """An operator is told that a reply is sent again, and nothing is."""

    async def broken(_store: SqlStore, _reply: ReplyId) -> str:
        return "pending"

    return [(SqlStore, "resend_reply", broken)]


@mutant("I29", "I19", budget=60, area=DECIDE)
def later_decision_wins() -> Sequence[Patch]:
    """Whoever decides last decides, whatever was said before."""
    return [(approvals, "DECIDE", _replaced(approvals.DECIDE, "and decided_at is null", ""))]
