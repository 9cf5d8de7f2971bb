"""How a channel or an MCP server is doing: the values that its loop keeps, and that commands and the HTTP API show."""

from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.dates import moment
from holdfast.kernel.ids import AgentName, Instant


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStanding:
    """How one MCP server is doing now."""

    agent: AgentName
    server: str
    state: LineState
    since: Instant
    reason: str  # why it is down
    attempts: int  # to connect, in a row that failed
    restarts: int  # connections after the first one
    tools: tuple[str, ...]  # offered to the model now
    confinement: str = ""  # of a program: bubblewrap, landlock or none
    confinement_note: str = ""  # why it is not a stronger one
    user: str = ""  # that a program runs as; empty: as Holdfast does

    @property
    def sentence(self) -> str:
        """One line for people."""
        return f"MCP server {self.server} (agent {self.agent}): {self._state}"

    @property
    def _state(self) -> str:
        if self.state is LineState.UP:
            confined = ", not confined" if self.confinement == "none" else ""
            return f"connected, {len(self.tools)} tools{confined}"
        return f"down: {self.reason}" if self.state is LineState.DOWN else "connecting"

    @property
    def outage(self) -> str:
        """What the model is told about a server that offers nothing. Holds no word of the server's own."""
        if self.state is LineState.STARTING:
            return f"{self.server} (still connecting)"
        return f"{self.server} (down since {moment(self.since)})"
