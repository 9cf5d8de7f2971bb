"""`holdfast sessions`, `show`, `context` and `compress`: sessions, their journal and their context."""

from typing import Annotated

import typer

from holdfast.api.shapes import shapes
from holdfast.cli.command import Limit, OnlyAgent, Runtime, SessionArgument, visitor
from holdfast.cli.output import OK, WRONG, Heading, Output, TextTable, when
from holdfast.cli.partial_id import session_named
from holdfast.cli.progress import progress
from holdfast.inbox.address import check_part
from holdfast.kernel.ids import SessionId
from holdfast.sessions.compression import Operation, snapshot_name
from holdfast.sessions.history_sql import list_operations, read_snapshot

LOOK_EVERY_MS = 1_000


@visitor(config=True, times=True)
async def sessions(
    runtime: Runtime,
    agent: OnlyAgent = None,
    chat: Annotated[
        str | None, typer.Option("--chat", help="Only this chat; without --agent, a chat of the first agent.")
    ] = None,
    after: Annotated[str, typer.Option("--after", help="The last session of the previous page.")] = "",
    limit: Limit = 100,
) -> Output:
    """List sessions, newest first.

    \b
    Examples:
      holdfast sessions
      holdfast sessions --agent main --chat family --json
    """
    found = await runtime.sessions(agent=agent, chat=chat, after=after, limit=limit)
    view = shapes.sessions_view(found)
    rows = (
        (one.id, one.agent, one.chat, _state(one), one.turns, one.summaries, when(one.opened_at), one.title)
        for one in view.sessions
    )
    headings = ("session", "agent", "chat", "state", "turns", "summaries", "opened", "title")
    return Output(view, TextTable(headings, rows, "none; `holdfast send` and `holdfast chat` begin one"))


def _state(session: shapes.SessionView) -> str:
    return f"{session.state}, live" if session.live else session.state


@visitor(times=True)
async def show(
    runtime: Runtime,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session, or `<session>.snapshot.<n>`.")],
    after: Annotated[int, typer.Option("--after", min=0, help="The last entry of the previous page.")] = 0,
    limit: Limit = 200,
) -> Output:
    """Show the journal of a session, or a snapshot.

    The beginning of an id is enough if no other session's id begins so. A snapshot consists of the entries that a
    compression covered and their summary.

    \b
    Examples:
      holdfast show ses_01k...
      holdfast show ses_01k... --after 200 --json
      holdfast show ses_01k....snapshot.1
    """
    parent, dot, number = session.rpartition(".snapshot.")
    if dot and number.isascii() and number.isdigit() and len(number) < 10:
        return await _snapshot(runtime, await session_named(runtime, parent), int(number))
    found = await session_named(runtime, session)
    view = shapes.entries_view(await runtime.history(found, after=after, limit=limit))
    more = [f"There may be more: --after {view.entries[-1].seq}"] if len(view.entries) == limit else []
    return Output(view, *(map(_entry, view.entries) if view.entries else ["none"]), *more)


async def _snapshot(runtime: Runtime, session: SessionId, n: int) -> Output:
    view = shapes.snapshot_view(*await runtime.db.read(read_snapshot(session, n)))
    return Output(
        view,
        Heading(f"{view.snapshot}: entries {view.covers_from} to {view.covers_through}"),
        f"made {when(view.at)} by {view.model}, operation {view.operation}, on summary {view.base_n}\n",
        f"{view.text}\n",
        *map(_entry, view.entries),
    )


def _entry(entry: shapes.JournalEntry) -> str:
    calls = " ".join(f"{call.name}({call.arguments})" for call in entry.calls)
    sender = f"{entry.sender}:" if entry.sender else None
    text = " ".join(filter(None, [sender, entry.tool, entry.text, f"calls {calls}" if calls else ""]))
    undone = " (undone)" if entry.undone else ""
    indented = text.replace("\n", "\n" + " " * 24)
    return f"{entry.seq:>6} {entry.turn:>4} {entry.kind:<11} {indented}{undone}"


@visitor(config=True)
async def context(runtime: Runtime, session: SessionArgument) -> Output:
    """Show the context that the model would receive.

    The context consists of the instructions, the newest summary, and every entry since.

    \b
    Examples:
      holdfast context ses_01k...
      holdfast context ses_01k... --json
    """
    view = shapes.context_view(await runtime.prompt(await session_named(runtime, session)))
    heading = Heading(f"about {view.tokens} tokens; the summary covers entries up to {view.covers_through}")
    return Output(view, heading, *(f"{message.role:<9} {message.content}" for message in view.messages))


@visitor(config=True)
async def compress(runtime: Runtime, session: SessionArgument) -> Output:
    """Summarise the older history of a session now.

    The session keeps its id, and its turns continue meanwhile.

    \b
    Examples:
      holdfast compress ses_01k...
    """
    with progress("compress"):
        ended = await _compressed(runtime, SessionId(check_part("session", session)))
    detail = ended.detail or {}
    if ended.outcome == "done":
        text = f"compressed into {snapshot_name(ended.session, int(str(detail['summary'])))}; the session is the same"
    else:
        text = f"{ended.outcome}: {detail.get('reason', 'no reason was recorded')}"
    return Output(shapes.operation_view(ended), text, code=OK if ended.outcome in {"done", "nothing"} else WRONG)


async def _compressed(runtime: Runtime, session: SessionId) -> Operation:
    """Start a compression and wait until it ends."""
    feed = runtime.events()
    operation = await runtime.begin_compression(session)
    just_before = operation.id[:-1]
    while True:
        page = await runtime.db.read(list_operations(session=operation.session, after=just_before, limit=1))
        if page and page[0].id == operation.id and page[0].ended_at is not None:
            feed.close()
            return page[0]
        await feed.next_within(LOOK_EVERY_MS)
