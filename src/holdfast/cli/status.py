"""`holdfast health`, `channels`, `tools` and `spend`: the state of the running process, and what it costs.

`holdfast up` shows the status of its channels and MCP servers on its terminal, and keeps it in a file for the commands.

Rule 1: the file is valid only while its process serves the data folder. The process is identified by its id and the
        time at which it took the folder, since a later process may have the same id.
Rule 2: an error here never stops a channel, whether the terminal is gone or the disk is full.
Rule 3: at most two lines per channel are printed: its first result, and that it is connected after all. The log has
        every change.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.api.shapes.monitoring import spending_view
from holdfast.api.shapes.shapes import health_view
from holdfast.cli.command import Invocation, OnlyAgent, Runtime, command, visitor
from holdfast.cli.output import OK, WRONG, Output, Part, TextTable, print_json, visible, when
from holdfast.inbox.address import agent_name
from holdfast.inbox.channel_status import ChannelStatus, ComponentStatus, ConnectionState, ToolServerStatus
from holdfast.turns.spend_sql import dollars, sum_spend_by_model

FILE = "channels.json"


class StatusPage(msgspec.Struct, frozen=True, kw_only=True):
    owner: str | None
    channels: list[ChannelStatus]
    servers: list[ToolServerStatus] = []
    models: list[ComponentStatus] = []
    memories: list[ComponentStatus] = []

    @property
    def components(self) -> list[ComponentStatus]:
        """The state of everything that agents of the serving process depend on."""
        return [
            *(one.component for one in self.channels),
            *(one.component for one in self.servers),
            *self.models,
            *self.memories,
        ]


class StatusFile:
    def __init__(self, folder: Path, runtime: Runtime, *, as_json: bool) -> None:
        self._folder = folder
        self._file = folder / FILE
        self._registry = runtime.channel_registry
        self._runtime = runtime
        self._as_json = as_json
        self._said: dict[tuple[str, str], ConnectionState] = {}
        self._is_due = False

    def open(self) -> None:
        """Report the current status and every change from now on."""
        self._registry.watch(self._hear)
        self._runtime.watch_tool_servers(self._hear_servers)
        self._runtime.watch_components(self._write_later)
        for one in self._registry.statuses():
            self._hear(one)
        self._hear_servers()

    def close(self) -> None:
        self._registry.watch(lambda _status: None)
        self._runtime.watch_tool_servers(lambda: None)
        self._runtime.watch_components(lambda: None)
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _hear_servers(self) -> None:
        for one in self._runtime.tool_servers():
            self._tell((one.agent, f"mcp {one.server}"), one)

    def _hear(self, one: ChannelStatus) -> None:
        self._tell((one.agent, one.channel), one)

    def _tell(self, key: tuple[str, str], one: ChannelStatus | ToolServerStatus) -> None:
        if one.state is not ConnectionState.STARTING and self._said.get(key) not in {ConnectionState.UP, one.state}:
            self._said[key] = one.state
            with suppress(OSError, ValueError):  # the terminal is gone
                if self._as_json:
                    event = "mcp" if isinstance(one, ToolServerStatus) else "channel"
                    print_json({"event": event, **msgspec.to_builtins(one)})
                else:
                    print(visible(one.sentence), flush=True)
        self._write_later()

    def _write_later(self) -> None:
        if not self._is_due:  # several changes are written together
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.keep)

    def keep(self) -> None:
        """Write the current status to the file."""
        self._is_due = False
        from holdfast.runtime.app import owner_of

        page = StatusPage(
            owner=owner_of(self._folder),
            channels=list(self._registry.statuses()),
            servers=list(self._runtime.tool_servers()),
            models=list(self._runtime.models()),
            memories=list(self._runtime.memories()),
        )
        draft = self._file.with_suffix(f".{os.getpid()}")
        try:
            handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as opened:
                opened.write(msgspec.json.encode(page))
            draft.replace(self._file)
        except OSError:  # a full disk: the next change is written again
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def read_status(folder: Path) -> StatusPage | None:
    """The status that the serving process wrote; None if no process serves the folder."""
    from holdfast.runtime.app import is_served, owner_of

    owner = owner_of(folder) if folder.is_dir() and is_served(folder) else None
    try:
        page = msgspec.json.decode((folder / FILE).read_bytes(), type=StatusPage)
    except (OSError, ValueError):  # the file is missing or malformed
        return None
    return page if owner is not None and page.owner == owner else None


NOT_SERVED = "no process serves this data folder; start `holdfast up`"
Statuses = Sequence[ChannelStatus] | Sequence[ToolServerStatus]


@command(times=True)
async def channels(invocation: Invocation) -> Output:
    """Show which bots are connected, and errors.

    The list has the bots of the running `holdfast up`, each with the time of its last change. HTTP, WebSocket and the
    terminal are always available and not listed.

    Exit code 1 if a bot is down, or if no `holdfast up` serves the data folder.

    \b
    Examples:
      holdfast channels
      holdfast channels --json
    """
    page = read_status(invocation.folder)
    found = page.channels if page else []
    rows = ((one.agent, one.channel, one.state.value, when(one.since), one.attempts, one.reason) for one in found)
    table = TextTable(("agent", "channel", "state", "since", "attempts", "identity or reason"), rows)
    return _connections("channels", found, table, served=page is not None)


@command(times=True)
async def tools(invocation: Invocation) -> Output:
    """Show which MCP servers are connected, and errors.

    The list has the servers of the running `holdfast up`, each with the time of its last change and the number of
    reconnects. A program is confined by bubblewrap, by Landlock, or not at all: then it can read Holdfast's data. A
    note explains why the strongest confinement is not in use. --json includes the names of the tools.

    Exit code 1 if a server is down, or if no process serves the data folder.

    \b
    Examples:
      holdfast tools
      holdfast tools --json
    """
    page = read_status(invocation.folder)
    found = page.servers if page else []
    rows = (
        (
            one.agent,
            one.server,
            one.state.value,
            when(one.since),
            one.restarts,
            len(one.tools),
            f"{one.confinement}, user {one.user}" if one.user else one.confinement,
            one.reason,
        )
        for one in found
    )
    table = TextTable(("agent", "server", "state", "since", "restarts", "tools", "confined by", "reason"), rows)
    notes = (
        f"note     {one.agent}/{one.server} is confined by {one.confinement}: {one.confinement_note}"
        for one in found
        if one.confinement_note
    )
    return _connections("servers", found, table, *notes, served=page is not None)


def _connections(what: str, found: Statuses, *text: Part, served: bool) -> Output:
    if not served:
        return Output({"served": False, what: []}, f"{NOT_SERVED[0].upper()}{NOT_SERVED[1:]}.", code=WRONG)
    return Output({"served": True, what: found}, *text, code=WRONG if _down(found) else OK)


def _down(found: Statuses) -> list[ChannelStatus | ToolServerStatus]:
    return [one for one in found if one.state is ConnectionState.DOWN]


@command()
async def health(invocation: Invocation) -> Output:
    """Test a write, and whether a process is serving.

    Exit code 1 if the write fails, or if no process serves the data folder, so that messages wait, or if that process
    has given no sign of life for 30 seconds. The JSON field `code` is `not_served`, `not_responding` or the code of the
    store's error. Channels, MCP servers and models that are down are listed but do not change the exit code; see
    `holdfast channels` and `holdfast tools`.

    \b
    Examples:
      holdfast health
      holdfast health --json
    """
    from holdfast.runtime.health import silent

    async with invocation.visiting() as runtime:
        found = await runtime.health()
    served = invocation.is_served
    if found.ok:
        found = silent(found, found.at) if served else replace(found, ok=False, code="not_served", why=NOT_SERVED)
    page = read_status(invocation.folder)
    down, lost = (_down(page.channels), _down(page.servers)) if page else ([], [])
    unwell = [one for one in page.models if one.is_down] if page else []
    if found.ok:
        megabytes = (found.wal_bytes or 0) // 1_000_000
        log = f"; its write-ahead log has {megabytes} MB" if megabytes else ""
        text = f"ok: a write took {found.proved_write_ms} ms; a process serves the data folder{log}"
    else:
        wrote = "" if found.proved_write_ms is None else f" (a write took {found.proved_write_ms} ms)"
        text = f"not ok: {found.code}: {found.why}{wrote}"
    view = {
        **msgspec.to_builtins(health_view(found)),
        "served": served,
        "channels_down": down,
        "servers_down": lost,
        "models_down": unwell,
    }
    return Output(view, text, *(one.sentence for one in (*down, *lost, *unwell)), code=OK if found.ok else WRONG)


@visitor()
async def spend(
    runtime: Runtime,
    agent: OnlyAgent = None,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="The number of days up to today (UTC).")] = 1,
) -> Output:
    """Show the costs of models by agent, model and task.

    \b
    Examples:
      holdfast spend
      holdfast spend --days 30
      holdfast spend --agent main --json
    """
    wanted = agent_name(agent) if agent else None
    view = spending_view(await runtime.db.read(sum_spend_by_model(days=days, agent=wanted)), days)
    rows = (
        (one.agent, one.model, one.task, one.answers, one.tokens_in, one.tokens_out, dollars(one.cost_micros))
        for one in view.lines
    )
    headings = ("agent", "model", "task", "answers", "tokens in", "tokens out", "cost")
    return Output(view, TextTable(headings, rows), f"total {view.total}")
