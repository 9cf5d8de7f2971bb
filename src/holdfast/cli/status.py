"""`holdfast health`, `channels` and `tools`: the state of the running process and of its connections."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from holdfast.api.shapes.shapes import health_view
from holdfast.cli.command import Invocation, command
from holdfast.cli.output import OK, WRONG, Output, Part, TextTable, when
from holdfast.cli.status_file import read_status
from holdfast.inbox.channel_status import ChannelStatus, ConnectionState, ToolServerStatus

NOT_SERVED = "no process serves this data folder; start `holdfast up`"
Statuses = Sequence[ChannelStatus] | Sequence[ToolServerStatus]


@command()
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


@command()
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

    Exit code 1 if the write fails, or if no process serves the data folder, so that messages wait. The JSON field
    `code` is `not_served` or the code of the store's error. Channels and MCP servers that are down are listed but do
    not change the exit code; see `holdfast channels` and `holdfast tools`.

    \b
    Examples:
      holdfast health
      holdfast health --json
    """
    async with invocation.visiting() as runtime:
        found = await runtime.health()
    served = invocation.is_served
    if found.ok and not served:
        found = replace(found, ok=False, code="not_served", why=NOT_SERVED)
    page = read_status(invocation.folder)
    down, lost = (_down(page.channels), _down(page.servers)) if page else ([], [])
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
    }
    return Output(view, text, *(one.sentence for one in (*down, *lost)), code=OK if found.ok else WRONG)
