"""`holdfast health`: whether a real write succeeds now."""

from pathlib import Path

from holdfast.cli.options import Data, Json


def health(data: Data = None, as_json: Json = False) -> None:
    """Prove a write to the data folder. Exit code 1 when it fails.

    \b
    Examples:
      holdfast health
      holdfast health --json
    """
    from holdfast.cli.running import run

    run(lambda: _health(data, as_json=as_json), as_json=as_json)


async def _health(data: Path | None, *, as_json: bool) -> int:
    from holdfast.app import is_served
    from holdfast.cli.opening import folder_of, visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK, WRONG
    from holdfast.ports.surface import health_view

    async with visiting(data) as runtime:
        found = await runtime.health()
    if as_json:
        print_json(health_view(found))
    elif found.ok:
        served = "a process serves it" if is_served(folder_of(data)) else "no process serves it now"
        print(f"ok: a write took {found.proved_write_ms} ms; {served}")
    else:
        print(f"not ok: {found.code}: {found.why}")
    return OK if found.ok else WRONG
