"""`holdfast health`: whether a write succeeds now, and whether a process serves the data folder."""

from dataclasses import replace

import msgspec

from holdfast.api.shapes.shapes import health_view
from holdfast.cli.command import Invocation, command
from holdfast.cli.output import OK, WRONG, Output
from holdfast.cli.status_file import read_status
from holdfast.inbox.channel_status import ConnectionState

NOT_SERVED = "no process serves this data folder; start `holdfast up`"


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
    down = [one for one in page.channels if one.state is ConnectionState.DOWN] if page else []
    lost = [one for one in page.servers if one.state is ConnectionState.DOWN] if page else []
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
    sentences = [*(one.sentence for one in down), *(one.sentence for one in lost)]
    return Output(view, text, *sentences, code=OK if found.ok else WRONG)
