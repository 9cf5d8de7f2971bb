"""The intake of one agent's channel: who may come in, where it belongs, and then the durable mailbox.

Rule 1: what is accepted is durable when `receive` returns; what is not kept is not kept on purpose, and counted as
        read, so that a channel that catches up does not ask for it again.
Rule 2: refusals are on record and told to the sender, because a platform cannot be refused (D2).
Rule 3: edits and deletions are journaled as talk that was overheard; they start no turn.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast import log
from holdfast.core.access import Admit, Knock, Pair, PairingAsk, decide, make_code
from holdfast.core.arrivals import hash_of, is_answered, place_of, plain_name, principal_of, text_of
from holdfast.core.errors import HoldfastError, Remedy
from holdfast.core.identity import ChatMove
from holdfast.core.ids import AgentName, MailboxId, OperationId, ReplyId, make_id
from holdfast.core.inbound import Accepted, Conflict, Duplicate, Enclosure
from holdfast.core.policy import AgentPolicy
from holdfast.loops.agents import Agents
from holdfast.loops.gateway import Gateway, Received
from holdfast.loops.receiver import Line, LineState
from holdfast.ports.channel import ATTACHMENTS_MAX, Change, ChatMessage, Verdict, conversation_of
from holdfast.ports.clock import Clock
from holdfast.ports.entropy import Entropy
from holdfast.ports.notifier import Notifier, Topic
from holdfast.ports.reader import Reader
from holdfast.ports.store import Store

CODE_BITS = 64
HOPELESS = frozenset({Remedy.CORRECT, Remedy.REPORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reception:
    """Implements `Intake`."""

    agent: AgentName
    channel: str
    agents: Agents
    gateway: Gateway
    store: Store
    reader: Reader
    notifier: Notifier
    clock: Clock
    entropy: Entropy
    line: Line

    async def receive(self, message: ChatMessage) -> Verdict:
        policy = self.agents.policy(self.agent)
        try:
            verdict = await self._take(message, policy) if await self._lets_in(message, policy) else Verdict.STRANGER
        except HoldfastError as error:
            if error.remedy not in HOPELESS:
                raise  # not acknowledged: it comes again
            # It would be as wrong the next time, and must not stand in the way of what comes after it.
            log.warning("intake.refused", agent=self.agent, channel=self.channel, code=error.code)
            verdict = Verdict.IGNORED
        if message.position is not None and verdict in {Verdict.STRANGER, Verdict.IGNORED}:
            conversation = conversation_of(message.chat, message.thread)
            await self.store.note_read(message.account, conversation, message.position, message.event_id)
        self.line.took()
        return verdict

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        return await self.reader.read_up_to(account)

    async def moved(self, old_chat: str, new_chat: str, *, new_type: str) -> None:
        await self.store.move_chat(
            ChatMove(
                agent=self.agent,
                channel=self.channel,
                old_chat=old_chat,
                new_type=new_type,
                new_chat=new_chat,
                by=f"{self.channel} itself",
                operation=OperationId(self._id("op")),
            )
        )

    def connected(self, detail: str = "") -> None:
        self.line.turn(LineState.UP, detail)

    def disconnected(self, reason: str) -> None:
        self.line.turn(LineState.DOWN, reason)

    # --- who may come in

    async def _lets_in(self, message: ChatMessage, policy: AgentPolicy) -> bool:
        knock = Knock(
            principal=principal_of(self.channel, message.sender),
            channel=self.channel,
            chat=message.chat,
            chat_type=message.chat_type,
            addressed=message.addressed and message.change is Change.NEW,
            human=message.human,
        )
        decision = decide(knock, policy.access, admitted=False)
        if not isinstance(decision, Admit) and await self.reader.admitted(self.agent, knock.principal):
            return True
        if isinstance(decision, Pair):
            await self._offer_pairing(message, knock, policy)
        return isinstance(decision, Admit)

    async def _offer_pairing(self, message: ChatMessage, knock: Knock, policy: AgentPolicy) -> None:
        asked = await self.store.ask_pairing(
            PairingAsk(
                agent=self.agent,
                channel=self.channel,
                principal=knock.principal,
                address=str(place_of(self.agent, self.channel, message, policy.groups)),
                code=make_code(self.entropy.bits(CODE_BITS)),
                reply=ReplyId(self._id("rep")),
                new_mailbox=MailboxId(self._id("box")),
                name=plain_name(message.sender_name),
            )
        )
        log.info("intake.refused", agent=self.agent, channel=self.channel, code="stranger", told=asked.told)
        if asked.told:
            self.notifier.wake(Topic.REPLY)

    # --- into the mailbox

    async def _take(self, message: ChatMessage, policy: AgentPolicy) -> Verdict:
        answered = message.change is Change.NEW and is_answered(message, policy.groups, addressed=message.addressed)
        attachments = message.attachments[:ATTACHMENTS_MAX]
        text = text_of(message.change.value, message.text, of=message.of, attachments=attachments)
        if not text.strip() or not (answered or policy.groups.observe):
            return Verdict.IGNORED
        received = Received(
            address=place_of(self.agent, self.channel, message, policy.groups),
            account=message.account,
            conversation=conversation_of(message.chat, message.thread),
            event_id=message.event_id,
            sender=principal_of(self.channel, message.sender),
            text=text,
            addressed=answered,
            human=message.human,
            refuse_durably=True,
            sender_name=plain_name(message.sender_name),
            position=message.position,
            enclosures=tuple(
                Enclosure(hash=hash_of(one.body), name=one.name, media_type=one.media_type, body=one.body)
                for one in attachments
                if one.body is not None
            ),
        )
        outcome = await self.gateway.accept(received)
        if isinstance(outcome, Accepted):
            return Verdict.TAKEN
        # A conflict is an event that was read before and was edited since; the edit is an event of its own.
        return Verdict.DUPLICATE if isinstance(outcome, Duplicate | Conflict) else self._refused()

    def _refused(self) -> Verdict:
        self.notifier.wake(Topic.REPLY)  # the sender is told
        return Verdict.REFUSED

    def _id(self, prefix: str) -> str:
        return make_id(prefix, self.clock.now(), self.entropy.bits(80))
