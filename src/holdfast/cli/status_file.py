"""The bulletin: how the channels and the MCP servers of `holdfast up` are doing, on its terminal and in a file.

Rule 1: the file says nothing once its process has gone: a reader asks first which process serves the data folder. The
        process is named with the time at which it took the folder, since a later one may have its number.
Rule 2: nothing here may stop a channel. A terminal that is gone and a disk that is full are not its business.
Rule 3: at most two lines per channel are printed, how it went first and that it is there after all: whoever started the
        process may never read on. The log has the rest.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.api.shapes.channels import ChannelStanding, standing_of, standing_view
from holdfast.api.shapes.tool_servers import ToolServer, server_of, server_view
from holdfast.inbox.channel_status import ChannelStatus, ConnectionState, ToolServerStatus

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

FILE = "channels.json"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    owner: str | None
    channels: list[ChannelStanding]
    servers: list[ToolServer] = []


class Bulletin:
    def __init__(
        self, folder: Path, runtime: "Runtime", say: Callable[[ChannelStatus | ToolServerStatus], None]
    ) -> None:
        self._folder = folder
        self._file = folder / FILE
        self._registry = runtime.channel_registry
        self._runtime = runtime
        self._say = say
        self._said: dict[tuple[str, str], ConnectionState] = {}
        self._is_due = False

    def open(self) -> None:
        """Tell what is known already, and what becomes known from now on."""
        self._registry.watch(self._hear)
        self._runtime.watch_tool_servers(self._hear_servers)
        for one in self._registry.statuses():
            self._hear(one)
        self._hear_servers()

    def close(self) -> None:
        self._registry.watch(lambda _status: None)
        self._runtime.watch_tool_servers(lambda: None)
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
            with suppress(OSError, ValueError):  # the terminal is gone, or closed
                self._say(one)
        if not self._is_due:  # what changes together is written once
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.keep)

    def keep(self) -> None:
        """Write down how the channels are doing now."""
        self._is_due = False
        from holdfast.runtime.app import owner_of

        page = Page(
            owner=owner_of(self._folder),
            channels=[standing_view(one) for one in self._registry.statuses()],
            servers=[server_view(one) for one in self._runtime.tool_servers()],
        )
        draft = self._file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as opened:
                opened.write(msgspec.json.encode(page))
            draft.replace(self._file)


def read_bulletin(folder: Path) -> Sequence[ChannelStatus] | None:
    """How the channels are doing; None when nobody serves them now."""
    page = _page(folder)
    return None if page is None else [standing_of(one) for one in page.channels]


def read_servers(folder: Path) -> Sequence[ToolServerStatus] | None:
    """How the MCP servers are doing; None when no process serves the folder now."""
    page = _page(folder)
    return None if page is None else [server_of(one) for one in page.servers]


def _page(folder: Path) -> Page | None:
    """The page of the process that serves the folder now."""
    from holdfast.runtime.app import served_by

    owner = served_by(folder)
    try:
        page = msgspec.json.decode((folder / FILE).read_bytes(), type=Page)
        _ = [standing_of(one) for one in page.channels], [server_of(one) for one in page.servers]
    except (OSError, ValueError):  # there is none, or not ours
        return None
    return page if owner is not None and page.owner == owner else None
