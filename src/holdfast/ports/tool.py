"""Tools: what a model may call. A tool says whether calling it twice is the same as calling it once, and whether a
human has to say yes first."""

from dataclasses import dataclass
from typing import Protocol

from holdfast.core.ids import AgentName, Principal, SessionId
from holdfast.core.journal import Recalled
from holdfast.core.naming import NOWHERE, Whereabouts
from holdfast.core.turn import OutgoingMessage
from holdfast.ports.model import ToolSpec


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
    where: Whereabouts = NOWHERE  # where the turn's messages were written


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    text: str
    ok: bool = True
    unknown: bool = False  # nobody can say whether it took effect
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


class Attached(Protocol):
    """Tools that live with the process that serves: they are started before its workers and closed after them."""

    async def start(self) -> None:
        """Within a bounded time; whatever is not there then comes later."""
        ...

    async def close(self) -> None: ...
