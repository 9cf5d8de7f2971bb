"""`holdfast compress`: summarise a session's older history now. The session stays the same."""

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.options import Config, Data, Json, SessionArgument

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime
    from holdfast.sessions.compression import Operation

LOOK_EVERY_MS = 1_000


def compress(session: SessionArgument, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Summarise older history now.

    The session stays the same and its turns go on meanwhile.

    \b
    Examples:
      holdfast compress ses_01k...
    """
    from holdfast.cli.running import run

    run(lambda: _compress(session, config, data, as_json=as_json), as_json=as_json)


async def _compress(session: str, config: Path | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.shapes import operation_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK, WRONG
    from holdfast.inbox.address import check_part
    from holdfast.kernel.ids import SessionId
    from holdfast.sessions.compression import snapshot_name

    async with visiting(data, config) as runtime:
        ended = await _ended(runtime, SessionId(check_part("session", session)))
    detail = ended.detail or {}
    if as_json:
        print_json(operation_view(ended))
    elif ended.outcome == "done":
        print(f"compressed into {snapshot_name(ended.session, int(str(detail['summary'])))}; the session is the same")
    else:
        print(f"{ended.outcome}: {detail.get('reason', 'no reason was recorded')}")
    return OK if ended.outcome in {"done", "nothing"} else WRONG


async def _ended(runtime: "Runtime", session: str) -> "Operation":
    """Begin a compression and wait for its end."""
    from holdfast.kernel.ids import SessionId
    from holdfast.sessions.history_sql import list_operations

    feed = runtime.events()
    operation = await runtime.begin_compression(SessionId(session))
    just_before = operation.id[:-1]
    while True:
        page = await runtime.db.read(list_operations(session=operation.session, after=just_before, limit=1))
        if page and page[0].id == operation.id and page[0].ended_at is not None:
            feed.close()
            return page[0]
        await feed.next_within(LOOK_EVERY_MS)
