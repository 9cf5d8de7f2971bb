"""One MCP server, and the task that owns its connection: it connects, waits for the end, and reconnects.

Rule 1: the task that opened a connection closes it; other tasks make the calls, which may be cancelled at any time.
Rule 2: a server that is down has no tools. A server that just died keeps them during the first reconnection, so that
        the next call finds it restarted.
Rule 3: an interrupted call has an unknown outcome; a call without a connection was certainly not made.
Rule 4: `standing` says whether the server is connected, since when, and why not. Commands, the HTTP API, the metrics
        and the model use it.
Rule 5: the name of an offered tool is `<server>_<tool>` and depends on the configuration alone: if it depended on which
        servers are up, a call after a restart could reach another server than the model meant.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from holdfast.inbox.channel_status import ConnectionState, ToolServerStatus
from holdfast.kernel import log
from holdfast.kernel.ids import AgentName
from holdfast.kernel.notifier import is_set_within
from holdfast.kernel.ports import Clock, Entropy, Task, Tasks
from holdfast.kernel.redaction import redacted
from holdfast.kernel.retry import RetryPolicy
from holdfast.tools.mcp.settings import McpSettings
from holdfast.turns.journal import storable
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import ToolOutcome

CONNECT_WAIT_S = 20.0
CALL_WAIT_S = 10.0  # for a server that is reconnecting
CLOSE_WAIT_S = 8.0
STEADY_MS = 60_000  # a connection of this age did not fail because of its start
REASON_CHARS_MAX = 300
ENDED = "it ended the connection"
NAME_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 4_000
SCHEMA_BYTES_MAX = 32 * 1024
TOOLS_MAX = 128
_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]")


class McpLink(Protocol):
    """An open connection. The task that owns the server enters and leaves it."""

    async def __aenter__(self) -> "McpLink": ...

    async def __aexit__(self, *error: Any) -> None: ...  # noqa: ANN401

    async def list_tools(self) -> Sequence[tuple[str, str, Mapping[str, object]]]: ...

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutcome: ...


Connect = Callable[[McpSettings, Callable[[], None]], McpLink]


class McpServer:
    def __init__(
        self, agent: str, settings: McpSettings, connect: Connect, *, clock: Clock, entropy: Entropy, tasks: Tasks
    ) -> None:
        self._agent = agent
        self.settings = settings
        self.offered: Mapping[str, OfferedTool] = {}
        self.hear: Callable[[], None] = lambda: None  # called after every change of `standing`
        self._connect = connect
        self._clock = clock
        self._entropy = entropy
        self._tasks = tasks
        self._owner: Task | None = None
        self._link: McpLink | None = None
        self._settled = asyncio.Event()  # the first attempt has ended, up or down
        self._gone = asyncio.Event()
        self._wanted = asyncio.Event()
        self._life = object()  # identifies the newest connection
        self._closing = False
        self._ended = asyncio.Event()
        self._state = ConnectionState.STARTING
        self._since = clock.now()
        self._reason = ""
        self._connections = 0
        self._failures = 0
        self._retry = RetryPolicy(delay_ms_base=500, delay_ms_max=60_000)

    @property
    def standing(self) -> ToolServerStatus:
        return ToolServerStatus(
            agent=AgentName(self._agent),
            server=self.settings.server,
            state=self._state,
            since=self._since,
            reason=self._reason,
            attempts=self._failures if self._state is not ConnectionState.UP else 0,
            restarts=max(0, self._connections - 1),
            tools=tuple(self.offered),
            confinement=self.settings.confinement,
            confinement_note=self.settings.confined.note,
            user="" if self.settings.user is None else self.settings.user.name,
        )

    def _set_state(self, state: ConnectionState, reason: str = "") -> None:
        if state is not self._state:
            self._since = self._clock.now()
        self._state, self._reason = state, reason
        self.hear()

    # --- connection

    def start(self) -> None:
        self._owner = self._tasks.start(self._own(), name=f"mcp {self._agent}/{self.settings.server}")

    async def settled(self) -> None:
        """Wait until the first attempt has ended."""
        await self._settled.wait()

    async def close(self) -> None:
        if self._owner is None:
            return
        self._closing = True
        self._lose(self._life)
        self._wanted.set()
        if not await is_set_within(self._ended, CLOSE_WAIT_S * 1000):
            self._owner.cancel()

    async def _own(self) -> None:
        try:
            while not self._closing:
                await self._live()
                if not self._closing:
                    await self._pause()
        finally:
            self._ended.set()

    async def _live(self) -> None:
        """One connection, from its opening to its end. Any error of the library ends it."""
        self._gone.clear()
        life = self._life = object()
        began = self._clock.now()
        why, was_up = ENDED, False
        try:
            link = self._connect(self.settings, lambda: self._lose(life))
            async with asyncio.timeout(CONNECT_WAIT_S) as opening, link:
                self.offered = offered_tools(self.settings, await link.list_tools())
                opening.reschedule(None)
                was_up = True
                self._up(link)
                await self._gone.wait()
        except Exception as error:  # noqa: BLE001 - a foreign library over a foreign server
            why = f"{type(_first(error)).__name__}: {_first(error)}"
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            why = "the library cancelled its own work"
        self._link = None
        if not was_up:
            self.offered = {}
        if not self._closing:
            self._down(why, self._clock.now() - began)

    def _lose(self, life: object) -> None:
        """The connection ended; calls now wait for the next one.

        A late failure of an earlier connection does not affect the current one.
        """
        if life is not self._life:
            return
        self._link = None
        self._settled.clear()
        self._gone.set()
        if self._state is ConnectionState.UP and not self._closing:
            self._set_state(ConnectionState.DOWN, ENDED)

    def _up(self, link: McpLink) -> None:
        self._link = link
        self._settled.set()
        self._connections += 1
        self._set_state(ConnectionState.UP)
        restarts = self._connections - 1
        log.info("mcp.up", agent=self._agent, server=self.settings.server, tools=len(self.offered), restarts=restarts)

    def _down(self, why: str, lived_ms: int) -> None:
        if lived_ms >= STEADY_MS:
            self._failures = 0
        self._failures += 1
        if not self.offered:
            self._settled.set()  # otherwise calls wait for the first reconnection
        reason = redacted(why[:REASON_CHARS_MAX])
        if self.settings.errors_file is not None and self.settings.command:
            reason += f" (its stderr is in {self.settings.errors_file.name})"
        self._set_state(ConnectionState.DOWN, reason)
        log.warning(
            "mcp.down",
            agent=self._agent,
            server=self.settings.server,
            why=reason,
            since=self._since,
            attempts=self._failures,
        )

    async def _pause(self) -> None:
        """No pause after the first failure, then a longer one each time; a call ends the pause."""
        if self._failures <= 1:
            return
        self._wanted.clear()
        delay_ms = self._retry.delay_ms(self._failures - 1, self._entropy.fraction())
        await is_set_within(self._wanted, delay_ms)

    # --- calls

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
        link = self._link or await self._reconnected()
        if link is None:
            return ToolOutcome(
                f"The tool server {self.standing.outage} could not be called; nothing was run.", ok=False
            )
        life = self._life
        try:
            outcome = await link.call(tool, arguments)
        except Exception as error:  # noqa: BLE001 - a foreign library: the call may have been sent before it raised
            self._lose(life)
            outcome = ToolOutcome(
                f"{self.settings.server} gave no usable answer ({type(error).__name__}).", unknown=True
            )
        if outcome.unknown:
            log.warning("mcp.skipped", agent=self._agent, server=self.settings.server, why="a call was cut off")
        else:
            self._failures = 0
        return outcome

    async def _reconnected(self) -> McpLink | None:
        self._wanted.set()
        return self._link if await is_set_within(self._settled, CALL_WAIT_S * 1000) else None


def _is_cancelled() -> bool:
    """Whether this task was cancelled, as opposed to a cancellation that leaked out of the library."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _first(error: BaseException) -> BaseException:
    """The first error of a group that is not a group itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# --- the offered tools --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OfferedTool:
    tool: str  # the server's own name
    spec: ToolSpec
    idempotent: bool
    dangerous: bool


def offered_tools(
    settings: McpSettings, listed: Sequence[tuple[str, str, Mapping[str, object]]]
) -> Mapping[str, OfferedTool]:
    """The offered tools by the name that the model uses. A tool that cannot be offered is logged and left out."""
    found: dict[str, OfferedTool] = {}
    for tool, description, schema in listed:
        if not settings.is_wanted(tool):
            continue
        name = offered_name(settings.server, tool, settings.others)
        fault = "two tools have this name" if name in found else _fault(schema, len(found))
        if fault:
            log.warning("mcp.skipped", server=settings.server, tool=name, why=fault)
            continue
        text = storable(description)[:DESCRIPTION_CHARS_MAX]
        spec = ToolSpec(name=name, description=text, parameters=dict(schema))
        found[name] = OfferedTool(tool, spec, tool in settings.idempotent, settings.is_dangerous(tool))
    return found


def offered_name(server: str, tool: str, others: Collection[str] = ()) -> str:
    """A name that every vendor accepts. A changed or shortened name gets a hash, so that it stays unique.

    So does a name that could belong to another server: `hub_open` of `git` if there is a server `git_hub`.
    """
    plain = _UNUSUAL.sub("_", f"{server}_{tool}")
    is_doubtful = any(len(one) > len(server) and plain.startswith(f"{one}_") for one in others)
    if plain == f"{server}_{tool}" and len(plain) <= NAME_CHARS_MAX and not is_doubtful:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: NAME_CHARS_MAX - 9]}_{mark}"


def _fault(schema: Mapping[str, object], offered: int) -> str:
    """Why a tool with this schema cannot be offered; empty if it can."""
    if offered >= TOOLS_MAX:
        return f"more than {TOOLS_MAX} tools; choose some with `tools`"
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
        return "its schema does not describe an object"
    try:
        size = len(msgspec.json.encode(schema))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return "its schema cannot be written as JSON"
    return f"its schema has {size} bytes; the limit is {SCHEMA_BYTES_MAX}" if size > SCHEMA_BYTES_MAX else ""
