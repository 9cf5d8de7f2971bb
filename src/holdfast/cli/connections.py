"""`holdfast channels` and `holdfast tools`: the connections of the running process to bots and MCP servers."""

from collections.abc import Sequence

from holdfast.cli.command import Invocation, command
from holdfast.cli.output import OK, WRONG, Output, TextTable, when
from holdfast.cli.status_file import read_status
from holdfast.inbox.channel_status import ChannelStatus, ConnectionState, ToolServerStatus

NOT_SERVED = "No process serves this data folder; start `holdfast up`."


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
    if page is None:
        return Output({"served": False, "channels": []}, NOT_SERVED, code=WRONG)
    found = page.channels
    rows = ((one.agent, one.channel, one.state.value, when(one.since), one.attempts, one.reason) for one in found)
    table = TextTable(("agent", "channel", "state", "since", "attempts", "identity or reason"), rows)
    return Output({"served": True, "channels": found}, table, code=_code(found))


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
    if page is None:
        return Output({"served": False, "servers": []}, NOT_SERVED, code=WRONG)
    found = page.servers
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
    return Output({"served": True, "servers": found}, table, *notes, code=_code(found))


def _code(found: Sequence[ChannelStatus | ToolServerStatus]) -> int:
    return WRONG if any(one.state is ConnectionState.DOWN for one in found) else OK
