"""The gateway: turns what a channel received into a durable inbound, before anybody acknowledges it."""

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
from holdfast.kernel.ids import Instant, MailboxId, MessageId, Principal, ReplyId
from holdfast.kernel.notifier import Event, Topic
from holdfast.memory.naming import NOWHERE, CallerDirectory
from holdfast.sessions.command_rights import Rank
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents

CROWD = 16  # messages on their way into the store at the same time
CROWD_LASTS_MS = 500  # a commit takes all of them in at once; the next ones are already coming


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What a channel hands over. The account is the bot's own identity on that channel."""

    address: Address
    event_id: str
    sender: str
    text: str
    account: str = ""  # the agent, unless the channel says otherwise
    conversation: str = ""  # the chat, unless the channel says otherwise
    addressed: bool = True
    human: bool = True
    hop: int = 0
    refuse_durably: bool = False
    unfit: str = ""  # why it can never be taken, where the channel knows
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
        self._arriving = 0
        self._crowds, self._crowded_at = 0, Instant(0)  # the most lately, and when that was

    @property
    def crowds(self) -> int:
        """How many crowds waited lately to be taken in: from one on, whatever can wait should, the longer the more."""
        return self._crowds if 0 <= self._ports.clock.now() - self._crowded_at < CROWD_LASTS_MS else 0

    def new_message(self) -> MessageId:
        """An id for a message about to be accepted, so that its caller can listen before it exists."""
        return MessageId(self._id("msg"))

    async def accept(self, received: Received, *, message: MessageId | None = None) -> AcceptOutcome:
        """Durable when it returns `Accepted`.

        What can never be accepted is on record as refused where the sender's platform cannot be told (`Unfit`).
        Elsewhere it raises, and nothing is written.
        """
        policy = self._agents.policy(received.address.agent)
        if received.hop > policy.hops_max:
            raise TooManyHops(
                f"the message went from agent to agent {received.hop} times; the limit is {policy.hops_max}"
            )
        kept = _as_kept(received, policy.limits)
        arrival = self._arrival(kept, message or self.new_message(), policy.access.operators)
        self._arriving += 1
        crowds = self._arriving // CROWD
        if crowds and crowds >= self.crowds:
            self._crowds, self._crowded_at = crowds, self._ports.clock.now()
        try:
            outcome = await self._ports.db.write(accept_message(arrival, policy.limits, self._ports.secret, acting()))
        finally:
            self._arriving -= 1
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
            self._ports.notifier.wake(Topic.MAIL)  # signals too: a /stop ends the wait of a turn that is to be retried
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
    """The message itself, or what is on record of one that cannot be kept: never its words."""
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
