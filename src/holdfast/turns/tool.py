"""The tool port: functions that a model may call.

A tool states whether a call may be repeated, and whether a human has to approve it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.memory.delivery import NOWHERE, CallerDirectory
from holdfast.turns.journal import Recalled
from holdfast.turns.model import ToolSpec
from holdfast.turns.turn import OutgoingMessage

TOOLS_NAMED_MAX = 60  # in the outcome for an unknown tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    agent: AgentName
    session: SessionId
    turn: int
    principal: Principal
    call: str  # stable across resumptions: an idempotency key for the tool's effects
    address: str = ""  # the address of the conversation
    epoch: int = 1
    head_seq: int = 0  # the last entry before the turn
    hop: int = 0  # the number of agents that the turn's messages have passed
    fence: int = 0  # of the claim on the turn's mailbox; writes outside the turn's transaction need it
    where: CallerDirectory = NOWHERE  # the working directory of the sender
    chain: Chain = NOBODY  # the agents that the turn's messages have passed
    shared: bool = False  # several people have spoken in the chat


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    text: str
    ok: bool = True
    unknown: bool = False  # whether it took effect is unknown
    missing: bool = False  # no tool has this name; nothing was run
    messages: tuple[OutgoingMessage, ...] = ()  # to other agents, stored in the transaction of this outcome
    shown: Recalled | None = None  # recalled text, journaled as a recall: for this turn only (D13)


class Tools(Protocol):
    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]: ...

    def is_idempotent(self, name: str) -> bool:
        """Whether a call of unknown outcome may be repeated."""

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        """Whether the tool itself is marked dangerous; the agent's policy may name others."""

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        """Run a tool. An error inside it is an outcome for the model, never an exception."""


@runtime_checkable
class Unreliable(Protocol):
    """Tools of servers, which may be down."""

    def outages(self) -> tuple[str, ...]:
        """The servers that are down, each with the time since when."""


@runtime_checkable
class Traceable(Protocol):
    """Tools with an origin, which tells whether two agents have the same tool."""

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        """Equal for two agents that have the same tool. None for an unknown tool."""


def origin_of(tools: Tools, agent: AgentName, name: str) -> Hashable | None:
    """The origin of a tool. Tools without one are the same if two agents share the object."""
    if isinstance(tools, Traceable):
        return tools.origin(agent, name)
    return (id(tools), name) if name in {spec.name for spec in tools.specs(agent)} else None


def built_in(name: str) -> Hashable:
    """The origin of a built-in tool, which acts only on its own agent's conversation."""
    return ("built-in", name)


def no_such_tool(name: str, specs: Sequence[ToolSpec], outages: Sequence[str] = ()) -> ToolOutcome:
    """The outcome for an unknown tool: the known tools, and the servers that are down."""
    named = ", ".join(spec.name for spec in specs[:TOOLS_NAMED_MAX]) or "none"
    more = f" and {len(specs) - TOOLS_NAMED_MAX} more" if len(specs) > TOOLS_NAMED_MAX else ""
    text = f"There is no tool {name[:200]!r}; there are: {named}{more}."
    return ToolOutcome(f"{text} {outage_text(outages)}".rstrip(), ok=False, missing=True)


def outage_text(outages: Sequence[str]) -> str:
    """The text for the model while servers are down; empty if none is."""
    if not outages:
        return ""
    return f"These tool servers are not available now, and so their tools are missing: {', '.join(outages)}."
