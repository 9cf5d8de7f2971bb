"""`holdfast show`: a session's journal, or one of its snapshots."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, Json

if TYPE_CHECKING:
    from holdfast.api.shapes.shapes import JournalEntry
    from holdfast.runtime.runtime import Runtime

LIMIT = 200


def show(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session, or `<session>.snapshot.<n>`.")],
    after: Annotated[int, typer.Option("--after", min=0, help="The last entry of the page before.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = LIMIT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show a session's journal, or a snapshot.

    A snapshot is what a compression covered, with its summary.

    \b
    Examples:
      holdfast show ses_01k...
      holdfast show ses_01k... --after 200 --json
      holdfast show ses_01k....snapshot.1
    """
    from holdfast.cli.running import run

    run(lambda: _show(session, after, limit, data, as_json=as_json), as_json=as_json)


async def _show(name: str, after: int, limit: int, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.shapes import entries_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.inbox.address import check_part
    from holdfast.kernel.ids import SessionId

    check_part("session", name)
    session, dot, number = name.rpartition(".snapshot.")
    async with visiting(data) as runtime:
        if dot and number.isascii() and number.isdigit() and len(number) < 10:
            return await _show_snapshot(runtime, session, int(number), as_json=as_json)
        view = entries_view(await runtime.history(SessionId(name), after=after, limit=limit))
    if as_json:
        print_json(view)
        return OK
    for entry in view.entries:
        _print_entry(entry)
    if len(view.entries) == limit:
        print(f"There may be more: --after {view.entries[-1].seq}")
    return OK


async def _show_snapshot(runtime: "Runtime", session: str, n: int, *, as_json: bool) -> int:
    from holdfast.api.shapes.shapes import snapshot_view
    from holdfast.cli.output import print_heading, print_json, visible, when
    from holdfast.cli.running import OK
    from holdfast.kernel.ids import SessionId
    from holdfast.sessions.history_sql import read_snapshot

    view = snapshot_view(*await runtime.db.read(read_snapshot(SessionId(session), n)))
    if as_json:
        print_json(view)
        return OK
    print_heading(f"{view.snapshot}: entries {view.covers_from} to {view.covers_through}")
    print(f"made {when(view.at)} by {view.model}, operation {view.operation}, on summary {view.base_n}\n")
    print(visible(view.text) + "\n")
    for entry in view.entries:
        _print_entry(entry)
    return OK


def _print_entry(entry: "JournalEntry") -> None:
    from holdfast.cli.output import visible

    calls = " ".join(f"{call.name}({call.arguments})" for call in entry.calls)
    said = f"{entry.sender}:" if entry.sender else None
    text = " ".join(filter(None, [said, entry.tool, entry.text, f"calls {calls}" if calls else ""]))
    undone = " (undone)" if entry.undone else ""
    indented = visible(text).replace("\n", "\n" + " " * 24)
    print(f"{entry.seq:>6} {entry.turn:>4} {entry.kind:<11} {indented}{undone}")
