"""The channel `agent`: one agent talks to another through the same durable path as every sender (D9, R38).

Rule 1: an agent's message goes to the mailbox agent:<other>:agent:dm:<the sender's own address>. Each conversation thus
        has its own mailbox with the other agent, and the answer's destination is known.
Rule 2: an answer is delivered to the conversation that asked. The turn it causes there answers the people of that
        conversation, never the other agent, so two agents cannot exchange one message for ever.
Rule 3: an agent may message only the agents in its `talks_to` and, in a turn caused by other agents, only those that
        each of them may message. This is checked again on sending, against the current configuration. An answer needs
        no permission.
Rule 4: the sender joins the chain of its message (inbox/agent_chain.py).
Rule 5: the reply's id is the event id, so delivering it twice is a duplicate.
"""

from collections.abc import Sequence

from holdfast.inbox.address import Address, parse
from holdfast.inbox.agent_chain import extended
from holdfast.inbox.channel import ChannelCapabilities, Intake
from holdfast.inbox.gateway import Gateway
from holdfast.inbox.message import Accepted, AcceptOutcome, Arrival, Conflict, Duplicate, TooMany, Unfit
from holdfast.kernel.errors import HoldfastError, InvalidAddress, Remedy
from holdfast.kernel.ids import AgentName, Principal
from holdfast.outbox.post import Declined, NotSent, Post, SendOutcome, Sent
from holdfast.turns.agents import Agents, may_message

CHANNEL = "agent"
TEXT_CHARS_MAX = 60_000
FULL_RETRY_MS = 5_000
KNOWN_FOR_MS = 100 * 365 * 24 * 60 * 60_000  # a mailbox remembers an event for ever, so no message arrives twice


class AgentChannel:
    """Implements `Channel` for one agent's messages to others."""

    capabilities = ChannelCapabilities(text_chars_max=TEXT_CHARS_MAX, nonce_lasts_ms=KNOWN_FOR_MS)

    def __init__(self, agent: AgentName, gateway: Gateway, agents: Agents) -> None:
        self._agent = agent
        self._gateway = gateway
        self._agents = agents

    async def run(self, intake: Intake) -> None:
        """Nothing is received here: a message is accepted when the other agent sends it."""
        intake.connected()

    async def send(self, post: Post) -> SendOutcome:
        is_answer = post.is_answer and post.address.agent == self._agent
        if not is_answer and post.address.agent not in (able := may_message(self._agents, self._agent, post.chain)):
            return Declined(_unlisted(self._agent, post, able))
        try:
            address = parse(post.address.chat) if is_answer else post.address
            hop = post.hop + 1 if is_answer else post.hop
            if hop > self._agents.policy(address.agent).hops_max:
                return Declined(f"it was passed from agent to agent {hop} times")
            outcome = await self._gateway.accept(self._arrival(post, address, hop))
        except InvalidAddress as error:
            return Declined(f"the answer has no conversation to return to: {error}")
        except HoldfastError as error:
            is_permanent = error.remedy in {Remedy.CORRECT, Remedy.REPORT}
            return Declined(str(error)) if is_permanent else NotSent(str(error))
        return _told(outcome)

    def _arrival(self, post: Post, address: Address, hop: int) -> Arrival:
        return Arrival(
            address=address,
            account=f"{CHANNEL}:{self._agent}",
            conversation=str(address)[-512:],
            event_id=post.nonce,
            principal=Principal(f"{CHANNEL}:{self._agent}"),
            text=f"[a message from the agent {self._agent}]\n{post.text}",
            human=False,
            hop=hop,
            chain=extended(post.chain, self._agent),
        )

    async def typing(self, address: Address) -> None:
        """Agents have no typing indicator."""

    async def close(self) -> None:
        """There is nothing to close."""


def _unlisted(agent: AgentName, post: Post, able: Sequence[AgentName]) -> str:
    came = f", in a turn that began with {' and '.join(post.chain)}" if post.chain else ""
    return f"agent {agent} may not message {post.address.agent}{came}; it may message {', '.join(able) or 'no agent'}"


def _told(outcome: AcceptOutcome) -> SendOutcome:
    match outcome:
        case Accepted(message=message) | Duplicate(message=message):
            return Sent(message)
        case Conflict(message=message):
            return Declined(f"another text was delivered under this id, as {message}")
        case Unfit(reason=reason):
            return Declined(reason)
        case TooMany(retry_after_ms=retry_after_ms):
            return NotSent("the other agent receives too many messages", retry_after_ms)
        case _:
            return NotSent("the other agent's mailbox is full", FULL_RETRY_MS)
