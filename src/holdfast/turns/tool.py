"""Tools: what a model may call. A tool says whether calling it twice is the same as calling it once, and whether a
human has to say yes first."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.inbox.channel_status import ToolServerStatus
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.memory.naming import NOWHERE, Whereabouts
from holdfast.turns.journal import Recalled
from holdfast.turns.model import ToolSpec
from holdfast.turns.turn import OutgoingMessage

TOOLS_NAMED_MAX = 60  # in the answer to a call of a tool that does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    agent: AgentName
    session: SessionId
    turn: int
    principal: Principal
    call: str  # stable across resumptions: an idempotency key for what the tool does
    address: str = ""  # the place of the conversation
    epoch: int = 1
    head_seq: int = 0  # the last entry before the turn
    hop: int = 0  # how many agents the turn's messages have come through
    fence: int = 0  # of the claim on the turn's mailbox; what is written elsewhere for the turn is refused without it
    where: Whereabouts = NOWHERE  # where the turn's messages were written
    chain: Chain = NOBODY  # the agents through which the turn's messages came
    shared: bool = False  # several people have spoken in the chat


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    text: str
    ok: bool = True
    unknown: bool = False  # nobody can say whether it took effect
    missing: bool = False  # there is no tool of this name; nothing was run
    messages: tuple[OutgoingMessage, ...] = ()  # to other agents; they leave with the entry that journals this outcome
    shown: Recalled | None = None  # words from elsewhere, journaled as a recall: for this turn only (D13)


class Tools(Protocol):
    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]: ...

    def is_idempotent(self, name: str) -> bool:
        """Whether a call of unknown outcome may simply be repeated."""
        ...

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        """Whether the tool itself is marked dangerous; the agent's policy may name others."""
        ...

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        """Run a tool. What goes wrong inside it is an outcome for the model, never an exception."""
        ...


@runtime_checkable
class Unreliable(Protocol):
    """Tools that depend on servers, which may be down."""

    def outages(self) -> tuple[str, ...]:
        """The servers whose tools are not offered now, each with since when."""
        ...


@runtime_checkable
class Traceable(Protocol):
    """Tools that can tell whether another agent has the very same one."""

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        """What a tool is made of; equal for two agents that have the same tool. None when there is no such tool."""
        ...


def origin_of(tools: Tools, agent: AgentName, name: str) -> Hashable | None:
    """What a tool is made of. Tools that cannot tell are the same where two agents hold one object."""
    if isinstance(tools, Traceable):
        return tools.origin(agent, name)
    return (id(tools), name) if name in {spec.name for spec in tools.specs(agent)} else None


def built_in(name: str) -> Hashable:
    """The origin of a tool that every agent can have. Each acts on its own agent's conversation only."""
    return ("built-in", name)


def no_such_tool(name: str, specs: Sequence[ToolSpec], outages: Sequence[str] = ()) -> ToolOutcome:
    """The answer to a call of a tool that does not exist: those that do, and the servers that would offer more."""
    named = ", ".join(spec.name for spec in specs[:TOOLS_NAMED_MAX]) or "none"
    more = f" and {len(specs) - TOOLS_NAMED_MAX} more" if len(specs) > TOOLS_NAMED_MAX else ""
    text = f"There is no tool {name[:200]!r}; there are: {named}{more}."
    return ToolOutcome(f"{text} {outage_text(outages)}".rstrip(), ok=False, missing=True)


def outage_text(outages: Sequence[str]) -> str:
    """What the model is told while servers are down; nothing while none is."""
    if not outages:
        return ""
    return f"These tool servers are not available now, and so their tools are missing: {', '.join(outages)}."


class Attached(Protocol):
    """Tools that live with the process that serves: they are started before its workers and closed after them."""

    async def start(self) -> None:
        """Within a bounded time; whatever is not there then comes later."""
        ...

    async def close(self) -> None: ...

    def standings(self) -> Sequence[ToolServerStatus]:
        """How each server is doing, in the order of the configuration."""
        ...

    def watch(self, hear: Callable[[], None]) -> None:
        """Have every change of a standing told at once. `hear` must be quick and must not raise."""
        ...
