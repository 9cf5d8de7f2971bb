"""The gateway: makes a received message durable before its channel acknowledges it."""

from dataclasses import dataclass, replace

from holdfast.audit.actor import acting
from holdfast.inbox.accept_sql import accept_message
from holdfast.inbox.address import Address, check_part
from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.inbox.message import (
    Accepted,
    AcceptOutcome,
    Arrival,
    Duplicate,
    Enclosure,
    Limits,
    MessageKind,
    check_event_id,
    check_text,
    kind_of,
)
from holdfast.kernel import log
from holdfast.kernel.errors import InvalidInput, TooManyHops
from holdfast.kernel.ids import MailboxId, MessageId, Principal, ReplyId
from holdfast.kernel.notifier import Event, Topic
from holdfast.memory.naming import NOWHERE, CallerDirectory
from holdfast.sessions.command_rights import Rank
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.turn_limit import TurnLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as a channel received it. The account is the bot's own identity on that channel."""

    address: Address
    event_id: str
    sender: str
    text: str
    account: str = ""  # defaults to the agent
    conversation: str = ""  # defaults to the chat
    addressed: bool = True
    human: bool = True
    hop: int = 0
    refuse_durably: bool = False
    unfit: str = ""  # the reason why it can never be accepted, if the channel knows one
    sender_name: str = ""
    position: int | None = None
    enclosures: tuple[Enclosure, ...] = ()
    where: CallerDirectory = NOWHERE
    trusted: bool = False
    token: str = ""
    chain: Chain = NOBODY
    request: str = ""
    rank: Rank = Rank.MEMBER


class Gateway:
    def __init__(
        self,
        ports: Ports,
        agents: Agents,
    ) -> None:
        self._ports = ports
        self._agents = agents
        self.turn_limit = TurnLimit()  # observed by the worker of this process

    def new_message(self) -> MessageId:
        """An id for a message, so that its caller can subscribe before accepting it."""
        return MessageId(self._id("msg"))

    async def accept(self, received: Received, *, message: MessageId | None = None) -> AcceptOutcome:
        """Accept a message; it is durable once this returns `Accepted`.

        A message that can never be accepted is recorded as refused (`Unfit`) if its platform cannot report the error.
        Otherwise this raises and writes nothing.
        """
        policy = self._agents.policy(received.address.agent)
        if received.hop > policy.hops_max:
            raise TooManyHops(
                f"the message went from agent to agent {received.hop} times; the limit is {policy.hops_max}"
            )
        kept = _as_kept(received, policy.limits)
        arrival = self._arrival(kept, message or self.new_message(), policy.access.operators)
        began = self._ports.clock.now()
        outcome = await self._ports.db.write(accept_message(arrival, policy.limits, self._ports.secret, acting()))
        now = self._ports.clock.now()
        self.turn_limit.accepted(now, now - began)
        if isinstance(outcome, Accepted):
            log.info(
                "accept.accepted",
                message=outcome.message,
                mailbox=outcome.mailbox,
                behind=outcome.queued_behind,
            )
            self._ports.notifier.publish(
                Event(name="message.accepted", mailbox=outcome.mailbox, messages=(outcome.message,))
            )
            self._ports.notifier.wake(Topic.MAIL)  # for signals too: /stop ends a retry delay
            if arrival.kind is MessageKind.SIGNAL:
                self._ports.notifier.wake(Topic.REPLY)
        elif not isinstance(outcome, Duplicate):
            log.info("accept.refused", address=str(received.address), outcome=type(outcome).__name__)
        return outcome

    def _arrival(self, received: Received, message: MessageId, operators: frozenset[str]) -> Arrival:
        address = received.address
        kind = kind_of(received.text, addressed=received.addressed, human=received.human)
        return Arrival(
            message=message,
            address=address,
            account=received.account or address.agent,
            conversation=received.conversation or address.chat,
            event_id=check_event_id(received.event_id),
            principal=Principal(check_part("sender", received.sender)),
            text=received.text,
            kind=kind,
            human=received.human,
            hop=received.hop,
            reply=ReplyId(self._id("rep")),
            new_mailbox=MailboxId(self._id("box")),
            refuse_durably=received.refuse_durably,
            sender_name=received.sender_name,
            position=received.position,
            enclosures=received.enclosures,
            unfit=received.unfit,
            where=received.where,
            trusted=received.trusted,
            token=received.token,
            chain=received.chain,
            request=received.request,
            rank=received.rank if kind in {MessageKind.COMMAND, MessageKind.SIGNAL} else Rank.MEMBER,
            operators=operators,
        )

    def _id(self, prefix: str) -> str:
        return self._ports.new_id(prefix)


def _as_kept(received: Received, limits: Limits) -> Received:
    """The message itself, or the record of a message that cannot be stored, which never has its text."""
    try:
        if not received.unfit:
            check_text(received.text, limits)
            return received
        unfit = received.unfit
    except InvalidInput as error:
        if not received.refuse_durably:
            raise
        unfit = error.code
    return replace(received, text="", unfit=unfit, enclosures=())
