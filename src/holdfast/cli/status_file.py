"""The status of the channels and MCP servers of `holdfast up`, on its terminal and in a file for other commands.

Rule 1: the file is valid only while its process serves the data folder. The process is identified by its id and the
        time at which it took the folder, since a later process may have the same id.
Rule 2: an error here never stops a channel, whether the terminal is gone or the disk is full.
Rule 3: at most two lines per channel are printed: its first result, and that it is connected after all. The log has
        every change.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.inbox.channel_status import ChannelStatus, ConnectionState, ToolServerStatus

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

FILE = "channels.json"


class StatusPage(msgspec.Struct, frozen=True, kw_only=True):
    owner: str | None
    channels: list[ChannelStatus]
    servers: list[ToolServerStatus] = []


class StatusFile:
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
        """Report the current status and every change from now on."""
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
            with suppress(OSError, ValueError):  # the terminal is gone
                self._say(one)
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
        )
        draft = self._file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as opened:
                opened.write(msgspec.json.encode(page))
            draft.replace(self._file)


def read_channels(folder: Path) -> Sequence[ChannelStatus] | None:
    """The status of the channels; None if no process serves the folder."""
    page = _page(folder)
    return None if page is None else page.channels


def read_servers(folder: Path) -> Sequence[ToolServerStatus] | None:
    """The status of the MCP servers; None if no process serves the folder."""
    page = _page(folder)
    return None if page is None else page.servers


def _page(folder: Path) -> StatusPage | None:
    """The status that the serving process wrote; None if there is none."""
    from holdfast.runtime.app import served_by

    owner = served_by(folder)
    try:
        page = msgspec.json.decode((folder / FILE).read_bytes(), type=StatusPage)
    except (OSError, ValueError):  # the file is missing or malformed
        return None
    return page if owner is not None and page.owner == owner else None
