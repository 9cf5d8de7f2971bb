"""`holdfast channels` and `holdfast tools`: the connections of the running process to bots and MCP servers."""

from holdfast.api.shapes.channels import standings_view
from holdfast.api.shapes.tool_servers import servers_view
from holdfast.cli.command import Invocation, command
from holdfast.cli.output import OK, WRONG, Output, TextTable, when
from holdfast.cli.status_file import read_channels, read_servers
from holdfast.inbox.channel_status import ConnectionState

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
    found = read_channels(invocation.folder)
    view = {"served": found is not None, "channels": standings_view(found or ()).channels}
    if found is None:
        return Output(view, NOT_SERVED, code=WRONG)
    rows = ((one.agent, one.channel, one.state.value, when(one.since), one.attempts, one.reason) for one in found)
    table = TextTable(("agent", "channel", "state", "since", "attempts", "identity or reason"), rows)
    return Output(view, table, code=WRONG if any(one.state is ConnectionState.DOWN for one in found) else OK)


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
    found = read_servers(invocation.folder)
    view = {"served": found is not None, "servers": servers_view(found or ()).servers}
    if found is None:
        return Output(view, NOT_SERVED, code=WRONG)
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
    return Output(view, table, *notes, code=WRONG if any(one.state is ConnectionState.DOWN for one in found) else OK)
