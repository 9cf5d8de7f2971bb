"""The connection status of a channel or an MCP server, as commands and the HTTP API show it."""

from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.dates import moment
from holdfast.kernel.ids import AgentName, Instant


class ConnectionState(Enum):
    STARTING = "starting"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStatus:
    """A bot account, and whether it is connected to its platform."""

    agent: AgentName
    channel: str
    state: ConnectionState = ConnectionState.STARTING
    since: Instant
    reason: str = ""  # why it is down, or the bot's name while it is up
    attempts: int = 0  # consecutive failures to connect

    @property
    def sentence(self) -> str:
        """The status in one line of text."""
        return f"{self.channel} (agent {self.agent}): {self._state}"

    @property
    def _state(self) -> str:
        if self.state is ConnectionState.UP:
            return f"connected as {self.reason}" if self.reason else "connected"
        return f"down: {self.reason}" if self.state is ConnectionState.DOWN else "connecting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServerStatus:
    """The status of an MCP server."""

    agent: AgentName
    server: str
    state: ConnectionState
    since: Instant
    reason: str  # why it is down
    attempts: int  # consecutive failures to connect
    restarts: int  # connections after the first one
    tools: tuple[str, ...]  # offered to the model now
    confinement: str = ""  # of a program: bubblewrap, landlock or none
    confinement_note: str = ""  # why no stronger confinement is used
    user: str = ""  # the user that a program runs as; empty for Holdfast's own

    @property
    def sentence(self) -> str:
        """The status in one line of text."""
        return f"MCP server {self.server} (agent {self.agent}): {self._state}"

    @property
    def _state(self) -> str:
        if self.state is ConnectionState.UP:
            confined = ", not confined" if self.confinement == "none" else ""
            return f"connected, {len(self.tools)} tools{confined}"
        return f"down: {self.reason}" if self.state is ConnectionState.DOWN else "connecting"

    @property
    def outage(self) -> str:
        """A description for the model of a server that offers no tools. It contains no text from the server."""
        if self.state is ConnectionState.STARTING:
            return f"{self.server} (still connecting)"
        return f"{self.server} (down since {moment(self.since)})"
