"""`holdfast health`: whether a real write succeeds now, and whether a process serves the data folder."""

from pathlib import Path

from holdfast.cli.options import Data, Json

NOT_SERVED = "no process serves this data folder now; `holdfast up` does"


def health(data: Data = None, as_json: Json = False) -> None:
    """Prove a write, and that a process serves the folder.

    Exit code 1 when the write fails, or when no process serves: what is sent then waits. In JSON `code` says which:
    `not_served`, or the code of the store's error. Channels and MCP servers that are down are named; they do not make
    it fail (`holdfast channels` and `holdfast tools` do).

    \b
    Examples:
      holdfast health
      holdfast health --json
    """
    from holdfast.cli.running import run

    run(lambda: _health(data, as_json=as_json), as_json=as_json)


async def _health(data: Path | None, *, as_json: bool) -> int:
    from dataclasses import replace

    import msgspec

    from holdfast.api.shapes.channels import standings_view
    from holdfast.api.shapes.shapes import health_view
    from holdfast.api.shapes.tool_servers import servers_view
    from holdfast.cli.opening import folder_of, visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK, WRONG
    from holdfast.cli.status_file import read_bulletin, read_servers
    from holdfast.inbox.channel_status import ConnectionState
    from holdfast.runtime.app import is_served

    async with visiting(data) as runtime:
        found = await runtime.health()
    served = is_served(folder_of(data))
    if found.ok and not served:
        found = replace(found, ok=False, code="not_served", why=NOT_SERVED)
    down = [one for one in read_bulletin(folder_of(data)) or () if one.state is ConnectionState.DOWN]
    lost = [one for one in read_servers(folder_of(data)) or () if one.state is ConnectionState.DOWN]
    if as_json:
        told = {"channels_down": standings_view(down).channels, "servers_down": servers_view(lost).servers}
        print_json({**msgspec.to_builtins(health_view(found)), "served": served, **told})
    elif found.ok:
        megabytes = (found.wal_bytes or 0) // 1_000_000
        log = f"; its log has {megabytes} MB" if megabytes else ""
        print(f"ok: a write took {found.proved_write_ms} ms; a process serves the folder{log}")
    else:
        wrote = "" if found.proved_write_ms is None else f" (a write took {found.proved_write_ms} ms)"
        print(f"not ok: {found.code}: {found.why}{wrote}")
    for sentence in () if as_json else (*(one.sentence for one in down), *(one.sentence for one in lost)):
        print(visible(sentence))
    return OK if found.ok else WRONG
