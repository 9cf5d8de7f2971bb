"""The inbound router of one agent's channel: it checks access, finds the mailbox, and stores the message.

Rule 1: a message that `receive` accepted is durable when it returns. A message that is dropped on purpose counts as
        read, so that a channel that catches up does not fetch it again.
Rule 2: a refusal is recorded and told to the sender, because a platform cannot be refused (D2). The record of a
        message that can never be accepted holds none of its text.
Rule 3: edits and deletions are journaled as observed messages and start no turn. An agent that does not observe a
        group sees no edits there either.
Rule 4: after an error of our own the message is not acknowledged, so the platform delivers it again. A message that
        keeps failing is refused, so that it cannot block the messages behind it; the refusal is durable before the
        message is acknowledged.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.inbox.accept_sql import was_accepted
from holdfast.inbox.access import DM, Knock, PairingAsk, SenderAccess, decide, make_code
from holdfast.inbox.access_sql import ask_pairing, is_admitted
from holdfast.inbox.attachment_sql import count_attachment_bytes, note_position, read_positions
from holdfast.inbox.channel import IntakeOutcome, Ranking
from holdfast.inbox.channel_status import ConnectionState
from holdfast.inbox.channels import ChannelConnection
from holdfast.inbox.chat_message import (
    ATTACHMENTS_MAX,
    Attachment,
    ChatMessage,
    MessageChange,
    hash_of,
    is_answered,
    place_of,
    plain_name,
    principal_of,
    text_of,
)
from holdfast.inbox.gateway import Gateway
from holdfast.inbox.identity import ChatMove
from holdfast.inbox.identity_sql import move_chat
from holdfast.inbox.message import Accepted, Arrival, Conflict, Duplicate, Enclosure
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, Remedy
from holdfast.kernel.ids import AgentName, MailboxId, OperationId, ReplyId
from holdfast.kernel.notifier import Topic
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.sessions.command_rights import Rank, asks_rank
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.approval import decided_in
from holdfast.turns.approval_sql import is_waiting_at
from holdfast.turns.policy import AgentPolicy

CODE_BITS = 64
ATTEMPTS_MAX = 5  # of a message that fails by an error of our own
COUNTED_MAX = 1_000  # messages whose failures are counted
FAULT = "internal_error"
NO_SPACE = "no space is left for this agent's attachments"


class FaultCounter:
    """Failures per message. Kept in memory: after a restart a message gets its attempts anew."""

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    def count(self, message: ChatMessage) -> int:
        key = _key(message)
        self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > COUNTED_MAX:
            self._counts.popitem(last=False)
        return self._counts[key]

    def forget(self, message: ChatMessage) -> None:
        self._counts.pop(_key(message), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundRouter:
    """Implements `Intake`."""

    agent: AgentName
    channel: str
    agents: Agents
    gateway: Gateway
    ports: Ports
    connection: ChannelConnection
    ranks: Ranking | None = None  # the channel, if its platform knows the admins of a group
    faults: FaultCounter = field(default_factory=FaultCounter)

    async def receive(self, message: ChatMessage) -> IntakeOutcome:
        policy = self.agents.policy(self.agent)
        is_admitted = False
        try:
            is_admitted = await self._admits(message, policy)
            outcome = await self._take(message, policy) if is_admitted else IntakeOutcome.STRANGER
        except Exception as error:  # noqa: BLE001 - raised again until the refusal is recorded
            outcome = await self._give_up(message, policy, error, tell=is_admitted)
        self.faults.forget(message)
        if message.position is not None and outcome in {IntakeOutcome.STRANGER, IntakeOutcome.IGNORED}:
            conversation = message.conversation
            await self.ports.db.write(note_position(message.account, conversation, message.position, message.event_id))
        self.connection.taken += 1
        return outcome

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        return await self.ports.db.read(read_positions(account))

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        await self.ports.db.write(note_position(account, conversation, position, event_id))

    async def moved(self, old_chat: str, new_chat: str, *, new_type: str) -> None:
        await self.ports.db.write(
            move_chat(
                ChatMove(
                    agent=self.agent,
                    channel=self.channel,
                    old_chat=old_chat,
                    new_type=new_type,
                    new_chat=new_chat,
                    by=f"{self.channel} itself",
                    operation=OperationId(self.ports.new_id("op")),
                )
            )
        )

    def connected(self, detail: str = "") -> None:
        self.connection.turn(ConnectionState.UP, detail)

    def disconnected(self, reason: str, *, vendor: VendorError = NO_ANSWER) -> None:
        self.connection.turn(ConnectionState.DOWN, reason, vendor)

    # --- access

    async def _admits(self, message: ChatMessage, policy: AgentPolicy) -> bool:
        knock = Knock(
            principal=principal_of(self.channel, message.sender),
            channel=self.channel,
            chat=message.chat,
            chat_type=message.chat_type,
            addressed=message.addressed and message.change is MessageChange.NEW,
            human=message.human,
        )
        decision = decide(knock, policy.access, admitted=False)
        if decision is not SenderAccess.ADMIT and await self.ports.db.read(is_admitted(self.agent, knock.principal)):
            return True
        if decision is SenderAccess.PAIR:
            await self._offer_pairing(message, knock, policy)
        return decision is SenderAccess.ADMIT

    async def _offer_pairing(self, message: ChatMessage, knock: Knock, policy: AgentPolicy) -> None:
        asked = await self.ports.db.write(
            ask_pairing(
                PairingAsk(
                    agent=self.agent,
                    channel=self.channel,
                    principal=knock.principal,
                    address=str(place_of(self.agent, self.channel, message, policy.groups)),
                    code=make_code(self.ports.entropy.bits(CODE_BITS)),
                    reply=ReplyId(self.ports.new_id("rep")),
                    new_mailbox=MailboxId(self.ports.new_id("box")),
                    name=plain_name(message.sender_name),
                )
            )
        )
        log.info("intake.refused", agent=self.agent, channel=self.channel, code="stranger", told=asked.told)
        if asked.told:
            self.ports.notifier.wake(Topic.REPLY)

    # --- the mailbox

    async def _take(self, message: ChatMessage, policy: AgentPolicy) -> IntakeOutcome:
        answered = _is_answered(message, policy) or await self._decides(message, policy)
        if not answered and not await self._observes(message, policy):
            return IntakeOutcome.IGNORED
        attachments, notes = await self._attachments(message, policy)
        text = text_of(message.change.value, message.text, of=message.of, attachments=attachments, notes=notes)
        if not text.strip():
            return IntakeOutcome.IGNORED
        enclosures = tuple(_enclosure(one, one.body) for one in attachments if one.body is not None)
        arrival = self._arrival(message, policy, addressed=answered)
        rank = await self._rank(message, arrival, text) if answered else Rank.MEMBER
        return await self._accept(replace(arrival, text=text, enclosures=enclosures, rank=rank))

    async def _rank(self, message: ChatMessage, arrival: Arrival, text: str) -> Rank:
        """The sender's rank in the group; the platform is asked only for a command that may need it."""
        if self.ranks is None or not asks_rank(text, str(arrival.address), human=message.human):
            return Rank.MEMBER
        return await self.ranks.rank(message)

    async def _decides(self, message: ChatMessage, policy: AgentPolicy) -> bool:
        """Whether an unaddressed message decides an approval pending in this chat, which makes it addressed."""
        named = decided_in(message.text) if message.change is MessageChange.NEW else None
        place = place_of(self.agent, self.channel, message, policy.groups)
        return named is not None and await self.ports.db.read(is_waiting_at(str(place), named))

    async def _observes(self, message: ChatMessage, policy: AgentPolicy) -> bool:
        """Whether to keep a message that gets no answer. An edit or deletion is kept if the original message was."""
        if policy.groups.observe or message.chat_type == DM:
            return True
        if message.change is MessageChange.NEW:
            return False
        conversation = message.conversation
        return await self.ports.db.read(was_accepted(message.account, conversation, message.of, self.ports.secret))

    async def _attachments(
        self, message: ChatMessage, policy: AgentPolicy
    ) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
        """The attachments to name in the text, with their bytes if the agent's quota allows, and notes about the rest.

        The quota is checked without a lock: messages that arrive together may exceed it by a few attachments.
        """
        kept, more = message.attachments[:ATTACHMENTS_MAX], len(message.attachments) - ATTACHMENTS_MAX
        notes = (f"and {more} more, not kept",) if more > 0 else ()
        size = sum(len(one.body) for one in kept if one.body is not None)
        if size == 0:
            return kept, notes
        limit, used = policy.limits.attachments_bytes_max, await self.ports.db.read(count_attachment_bytes(self.agent))
        if used + size <= limit:
            return kept, notes
        log.warning("attachment.refused", agent=self.agent, channel=self.channel, bytes=size, used=used, limit=limit)
        return tuple(replace(one, body=None) for one in kept), (*notes, NO_SPACE)

    def _arrival(self, message: ChatMessage, policy: AgentPolicy, *, addressed: bool) -> Arrival:
        """The message for the gateway, without its text."""
        return Arrival(
            address=place_of(self.agent, self.channel, message, policy.groups),
            account=message.account,
            conversation=message.conversation,
            event_id=message.event_id,
            principal=principal_of(self.channel, message.sender),
            text="",
            addressed=addressed,
            human=message.human,
            refuse_durably=True,
            sender_name=plain_name(message.sender_name),
            position=message.position,
        )

    async def _accept(self, arrival: Arrival) -> IntakeOutcome:
        outcome = await self.gateway.accept(arrival)
        if isinstance(outcome, Accepted):
            return IntakeOutcome.TAKEN
        if isinstance(outcome, Duplicate | Conflict):
            return IntakeOutcome.DUPLICATE  # a conflict is a known event; the edit of its text is an event of its own
        self.ports.notifier.wake(Topic.REPLY)  # the sender is told
        return IntakeOutcome.REFUSED

    async def _give_up(
        self, message: ChatMessage, policy: AgentPolicy, error: Exception, *, tell: bool
    ) -> IntakeOutcome:
        """Refuse a message that could not be stored. Raises the error as long as another attempt may succeed."""
        remedy = error.remedy if isinstance(error, HoldfastError) else Remedy.REPORT
        code = error.code if isinstance(error, HoldfastError) else type(error).__name__
        if remedy is Remedy.CORRECT:  # the ids are invalid, so there is no mailbox for the record
            log.warning("intake.refused", agent=self.agent, channel=self.channel, code=code)
            return IntakeOutcome.IGNORED
        if remedy is not Remedy.REPORT or (attempts := self.faults.count(message)) < ATTEMPTS_MAX:
            raise error
        fault = None if isinstance(error, HoldfastError) else error
        log.error("intake.abandoned", failure=fault, agent=self.agent, channel=self.channel, code=code, tries=attempts)
        arrival = self._arrival(message, policy, addressed=tell and _is_answered(message, policy))
        return await self._accept(replace(arrival, unfit=FAULT))


def _is_answered(message: ChatMessage, policy: AgentPolicy) -> bool:
    return message.change is MessageChange.NEW and is_answered(message, policy.groups, addressed=message.addressed)


def _enclosure(one: Attachment, body: bytes) -> Enclosure:
    """The sender chose the names; characters that are not valid Unicode are replaced."""
    name, media_type = (text.encode("utf-8", "replace").decode() for text in (one.name, one.media_type))
    return Enclosure(hash=hash_of(body), name=name, media_type=media_type, body=body)


def _key(message: ChatMessage) -> tuple[str, str, str]:
    return message.account, message.conversation, message.event_id
