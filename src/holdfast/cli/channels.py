"""`holdfast channels`: whether the bot accounts of the running process are connected."""

from pathlib import Path

from holdfast.cli.options import Data, Json


def channels(*, data: Data = None, as_json: Json = False) -> None:
    """Show which bots are connected, and why the others are not.

    They are those of the running `holdfast up`, each with the time since when it is so.

    Exit code 1 when one of them is down, or when no `holdfast up` serves the data folder. HTTP, WebSocket and the
    terminal are always there and not listed.

    \b
    Examples:
      holdfast channels
      holdfast channels --json
    """
    from holdfast.cli.running import run

    run(lambda: _channels(data, as_json=as_json), as_json=as_json)


async def _channels(data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.channels import standings_view
    from holdfast.cli.opening import folder_of
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK, WRONG
    from holdfast.cli.status_file import read_bulletin
    from holdfast.inbox.channel_status import ConnectionState

    found = read_bulletin(folder_of(data))
    is_down = any(one.state is ConnectionState.DOWN for one in found or ())
    if as_json:
        print_json({"served": found is not None, "channels": standings_view(found or ()).channels})
    elif found is None:
        print("No process serves the channels of this data folder now; `holdfast up` does.")
    else:
        rows = [(one.agent, one.channel, one.state.value, when(one.since), one.attempts, one.reason) for one in found]
        print_table(("agent", "channel", "state", "since", "attempts", "as, or why not"), rows)
    return WRONG if is_down or found is None else OK
