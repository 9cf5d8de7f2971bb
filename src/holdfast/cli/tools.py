"""`holdfast tools`: whether the MCP servers of the running process are connected, and what they offer."""

from pathlib import Path

from holdfast.cli.options import Data, Json


def tools(*, data: Data = None, as_json: Json = False) -> None:
    """Show which MCP servers are connected, and why not.

    They are those of the running `holdfast up`, each with the time since when it is so and how often it was
    connected again. A program is confined by bubblewrap, by Landlock, or by nothing: then it can read Holdfast's data.
    Where it is not the strongest, a line says why. --json has the names of the tools.

    Exit code 1 when one of them is down, or when no process serves the data folder.

    \b
    Examples:
      holdfast tools
      holdfast tools --json
    """
    from holdfast.cli.running import run

    run(lambda: _tools(data, as_json=as_json), as_json=as_json)


async def _tools(data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.tool_servers import servers_view
    from holdfast.cli.opening import folder_of
    from holdfast.cli.output import print_json, print_table, visible, when
    from holdfast.cli.running import OK, WRONG
    from holdfast.cli.status_file import read_servers
    from holdfast.inbox.channel_status import ConnectionState

    found = read_servers(folder_of(data))
    if as_json:
        print_json({"served": found is not None, "servers": servers_view(found or ()).servers})
    elif found is None:
        print("No `holdfast up` serves this data folder now.")
    else:
        rows = [
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
        ]
        print_table(("agent", "server", "state", "since", "restarts", "tools", "confined by", "why not"), rows)
        for one in found:
            if one.confinement_note:
                print(
                    visible(
                        f"note     {one.agent}/{one.server} is confined by {one.confinement}: {one.confinement_note}"
                    )
                )
    return WRONG if found is None or any(one.state is ConnectionState.DOWN for one in found) else OK
