"""Tools: what a model may call. A tool says whether calling it twice is the same as calling it once."""

from dataclasses import dataclass
from typing import Protocol

from holdfast.core.ids import AgentName, Principal, SessionId
from holdfast.ports.model import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    agent: AgentName
    session: SessionId
    turn: int
    principal: Principal
    call: str  # stable across resumptions: an idempotency key for what the tool does


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    text: str
    ok: bool = True


class Tools(Protocol):
    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]: ...

    def is_idempotent(self, name: str) -> bool:
        """Whether a call of unknown outcome may simply be repeated."""
        ...

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        """Run a tool. What goes wrong inside it is an outcome for the model, never an exception."""
        ...
