"""How a channel is doing: the values that its loop keeps, and that commands and the HTTP API show."""

from dataclasses import dataclass
from enum import Enum

from holdfast.core.ids import AgentName, Instant


class LineState(Enum):
    STARTING = "starting"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one channel is doing now."""

    agent: AgentName
    channel: str
    state: LineState
    since: Instant
    reason: str
    attempts: int

    @property
    def sentence(self) -> str:
        """One line for people."""
        return f"{self.channel} (agent {self.agent}): {self._state}"

    @property
    def _state(self) -> str:
        if self.state is LineState.UP:
            return f"connected as {self.reason}" if self.reason else "connected"
        return f"down: {self.reason}" if self.state is LineState.DOWN else "connecting"
