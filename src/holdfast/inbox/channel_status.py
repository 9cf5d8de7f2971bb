"""The states of what an agent depends on - channels, MCP servers, models, memory providers - as commands and the HTTP
API show them.

A state is what the latest use showed: nothing is asked only to learn it. It is kept in the memory of the process that
uses the component, and in the status file that other processes read.
"""

from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.dates import moment
from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError

REFUSES = frozenset({401, 403})  # statuses of a key or token that the other side does not accept


class ComponentKind(Enum):
    CHANNEL = "channel"
    TOOLS = "tools"  # an MCP server
    MODEL = "model"
    MEMORY = "memory"


class ConnectionState(Enum):
    UNKNOWN = "unknown"  # not used yet
    STARTING = "starting"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStatus:
    kind: ComponentKind
    agent: AgentName
    name: str
    state: ConnectionState = ConnectionState.UNKNOWN
    since: Instant  # of the state
    reason: str = ""  # why it is down; the bot's name of a channel that is up
    attempts: int = 0  # consecutive failures
    succeeded_at: Instant | None = None  # the newest use that succeeded; None if it is not known
    failed_at: Instant | None = None  # with the following three: the newest failure
    status: int | None = None  # of the vendor's answer
    request_id: str | None = None
    code: str | None = None  # the vendor's own
    retry_at: Instant | None = None  # while its circuit breaker is open: the next attempt

    @property
    def is_down(self) -> bool:
        return self.state is ConnectionState.DOWN

    @property
    def needs_key(self) -> bool:
        """Whether it is down because the other side refuses the key or token, which only a person can mend."""
        return self.is_down and self.status in REFUSES

    @property
    def sentence(self) -> str:
        """The state in one line of text."""
        said = f": {self.reason}" if self.reason and self.is_down else ""
        return f"{self.kind.value} {self.name} (agent {self.agent}): {self.state.value}{said}"


def answered(vendor: VendorError = NO_ANSWER) -> dict[str, int | str | None]:
    """The fields of a status for a vendor's answer."""
    return {
        "status": vendor.status or None,
        "request_id": vendor.request_id or None,
        "code": vendor.code or None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStatus:
    """A bot account, and whether it is connected to its platform."""

    agent: AgentName
    channel: str
    state: ConnectionState = ConnectionState.STARTING
    since: Instant
    reason: str = ""  # why it is down, or the bot's name while it is up
    attempts: int = 0  # consecutive failures to connect
    status: int | None = None  # of the platform's answer to the newest failure, with the following two
    request_id: str | None = None
    code: str | None = None

    @property
    def component(self) -> ComponentStatus:
        return ComponentStatus(
            kind=ComponentKind.CHANNEL,
            agent=self.agent,
            name=self.channel,
            state=self.state,
            since=self.since,
            reason=self.reason,
            attempts=self.attempts,
            status=self.status,
            request_id=self.request_id,
            code=self.code,
        )

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
    def component(self) -> ComponentStatus:
        return ComponentStatus(
            kind=ComponentKind.TOOLS,
            agent=self.agent,
            name=self.server,
            state=self.state,
            since=self.since,
            reason=self.reason,
            attempts=self.attempts,
        )

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
