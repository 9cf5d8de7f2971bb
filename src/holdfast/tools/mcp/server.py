"""One MCP server and the one task that owns its connection: it connects, waits until the server is gone, and again.

Rule 1: the task that opened a connection closes it; calls are made from other tasks and may be cancelled at any time.
Rule 2: a server that is not there has no tools. One that just died keeps them while the first attempt to reach it
        again is under way, so that the next call finds it restarted.
Rule 3: a call that was cut off has an unknown outcome; one that found no server certainly was not made.
Rule 4: `standing` says at every instant whether the server is connected, since when, and why it is not. Commands, the
        HTTP API, the metrics and the model are told from it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from holdfast.inbox.channel_status import ConnectionState, ToolServerStatus
from holdfast.kernel import log
from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.ids import AgentName
from holdfast.kernel.redaction import redacted
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.tasks import Task, Tasks
from holdfast.tools.mcp.offer import Offer, offers
from holdfast.tools.mcp.settings import McpSettings
from holdfast.turns.tool import ToolOutcome

CONNECT_WAIT_S = 20.0
CALL_WAIT_S = 10.0  # for a server that is being started again
CLOSE_WAIT_S = 8.0
STEADY_MS = 60_000  # one that lived so long did not die of being started
REASON_CHARS_MAX = 300
ENDED = "it ended the connection"


class Link(Protocol):
    """An open connection; entered and left by the task that owns the server."""

    async def __aenter__(self) -> "Link": ...

    async def __aexit__(self, *error: Any) -> None: ...  # noqa: ANN401

    async def list_tools(self) -> Sequence[tuple[str, str, Mapping[str, object]]]: ...

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutcome: ...


Connect = Callable[[McpSettings, Callable[[], None]], Link]


class McpServer:
    def __init__(
        self, agent: str, settings: McpSettings, connect: Connect, *, clock: Clock, entropy: Entropy, tasks: Tasks
    ) -> None:
        self._agent = agent
        self.settings = settings
        self.offered: Mapping[str, Offer] = {}
        self.hear: Callable[[], None] = lambda: None  # told of every change of `standing`
        self._connect = connect
        self._clock = clock
        self._entropy = entropy
        self._tasks = tasks
        self._owner: Task | None = None
        self._link: Link | None = None
        self._settled = asyncio.Event()  # it was tried: the server is there, or it is known not to be
        self._gone = asyncio.Event()
        self._wanted = asyncio.Event()
        self._life = object()  # of the newest connection
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

    def _turn(self, state: ConnectionState, reason: str = "") -> None:
        if state is not self._state:
            self._since = self._clock.now()
        self._state, self._reason = state, reason
        self.hear()

    # --- life

    def start(self) -> None:
        self._owner = self._tasks.start(self._own(), name=f"mcp {self._agent}/{self.settings.server}")

    async def settled(self) -> None:
        """Until it is there, or was tried and is not."""
        await self._settled.wait()

    async def close(self) -> None:
        if self._owner is None:
            return
        self._closing = True
        self._lose(self._life)
        self._wanted.set()
        try:
            async with asyncio.timeout(CLOSE_WAIT_S):
                await self._ended.wait()
        except TimeoutError:
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
        """One connection, from its opening to its end. A top of its own: whatever the library raises ends it."""
        self._gone.clear()
        life = self._life = object()
        began = self._clock.now()
        why, was_up = ENDED, False
        try:
            link = self._connect(self.settings, lambda: self._lose(life))
            async with asyncio.timeout(CONNECT_WAIT_S) as opening, link:
                self.offered = offers(self.settings, await link.list_tools())
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
        """The connection ended: from this instant calls wait for the next one.

        A call that fails late speaks of an earlier connection, and the one there is now has nothing to do with it.
        """
        if life is not self._life:
            return
        self._link = None
        self._settled.clear()
        self._gone.set()
        if self._state is ConnectionState.UP and not self._closing:
            self._turn(ConnectionState.DOWN, ENDED)

    def _up(self, link: Link) -> None:
        self._link = link
        self._settled.set()
        self._connections += 1
        self._turn(ConnectionState.UP)
        restarts = self._connections - 1
        log.info("mcp.up", agent=self._agent, server=self.settings.server, tools=len(self.offered), restarts=restarts)

    def _down(self, why: str, lived_ms: int) -> None:
        if lived_ms >= STEADY_MS:
            self._failures = 0
        self._failures += 1
        if not self.offered:
            self._settled.set()  # otherwise calls wait for the first attempt to have it back
        reason = redacted(why[:REASON_CHARS_MAX])
        if self.settings.errors_file is not None and self.settings.command:
            reason += f" (its stderr is in {self.settings.errors_file.name})"
        self._turn(ConnectionState.DOWN, reason)
        log.warning(
            "mcp.down",
            agent=self._agent,
            server=self.settings.server,
            why=reason,
            since=self._since,
            attempts=self._failures,
        )

    async def _pause(self) -> None:
        """Nothing after the first end; then longer each time, unless somebody wants to call."""
        if self._failures <= 1:
            return
        self._wanted.clear()
        delay_ms = self._retry.delay_ms(self._failures - 1, self._entropy.fraction())
        try:
            async with asyncio.timeout(delay_ms / 1000):
                await self._wanted.wait()
        except TimeoutError:
            return

    # --- calls

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
        link = self._link or await self._again()
        if link is None:
            return ToolOutcome(
                f"The tool server {self.standing.outage} did not take the call; nothing was run.", ok=False
            )
        life = self._life
        try:
            outcome = await link.call(tool, arguments)
        except Exception as error:  # noqa: BLE001 - a foreign library: the call may have left before it raised
            self._lose(life)
            outcome = ToolOutcome(
                f"{self.settings.server} gave no usable answer ({type(error).__name__}).", unknown=True
            )
        if outcome.unknown:
            log.warning("mcp.skipped", agent=self._agent, server=self.settings.server, why="a call was cut off")
        else:
            self._failures = 0
        return outcome

    async def _again(self) -> Link | None:
        self._wanted.set()
        try:
            async with asyncio.timeout(CALL_WAIT_S):
                await self._settled.wait()
        except TimeoutError:
            return None
        return self._link


def _is_cancelled() -> bool:
    """Whether somebody cancelled this task, as opposed to a cancellation inside the library that leaked out."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _first(error: BaseException) -> BaseException:
    """The first plain error of a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
