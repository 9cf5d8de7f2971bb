"""The model's `send_message` tool: a message to another agent, without waiting for the answer (D9, R38).

The tool itself sends nothing. The transaction that journals its result also stores the message, so it is sent once or
not at all. The message counts the agents that it has passed, so that two agents cannot keep each other busy for ever.
The operator decides whom an agent may message (`talks_to`); the channel checks it again on delivery.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import SEND_MESSAGE, Chain
from holdfast.inbox.message import Limits, check_text
from holdfast.kernel.errors import HoldfastError, InvalidName
from holdfast.kernel.ids import AgentName
from holdfast.turns.tool import ToolContext, ToolOutcome
from holdfast.turns.turn import OutgoingMessage

NAME = SEND_MESSAGE
CHANNEL = "agent"
TEXT_BYTES_MAX = 32 * 1024
SendTool: TypeAlias = Callable[..., Awaitable[ToolOutcome]]
Reach: TypeAlias = Callable[[AgentName, Chain], Sequence[AgentName]]  # agents that may be messaged in such a turn


def make_send_tool(reach: Reach, *, hops_max: int) -> SendTool:
    """The function for `toolbox.add(make_send_tool(...), idempotent=True)`."""

    async def send_message(*, to: str, text: str, context: ToolContext) -> ToolOutcome:
        """Send a message to another agent, by its name. It answers later, in a message of its own; do not wait for it.

        Say everything that it needs to know: it does not see this conversation.
        """
        refusal = _refusal(to, text, reach(context.agent, context.chain), context, hops_max)
        if refusal is not None:
            return ToolOutcome(f"Nothing was sent: {refusal}", ok=False)
        try:
            address = Address(agent=AgentName(to), channel=CHANNEL, type="dm", chat=context.address)
        except InvalidName:
            return ToolOutcome("Nothing was sent: the address of this chat is too long to be answered at.", ok=False)
        sent = OutgoingMessage(address=str(address), text=text)
        return ToolOutcome(f"Sent to {to}. Its answer comes later, as a message.", messages=(sent,))

    return send_message


def _refusal(to: str, text: str, able: Sequence[AgentName], context: ToolContext, hops_max: int) -> str | None:
    """Why the message cannot be sent; None if it can."""
    whom = f"you can reach {', '.join(able)}" if able else "you can reach no agent in this turn"
    if to == context.agent:
        return f"that is you; {whom}."
    if to not in able:
        return f"you may not message {to[:80]!r}; {whom}."
    try:
        check_text(text, Limits(message_bytes_max=TEXT_BYTES_MAX))
    except HoldfastError as error:
        return f"{error}. {error.hint}"
    if context.hop + 1 > hops_max:
        return f"this conversation has gone from agent to agent {context.hop} times, and the limit is {hops_max}."
    return None
