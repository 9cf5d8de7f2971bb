"""`holdfast export` and `import`: conversations and notes as lines of JSON, or as Markdown for people."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from holdfast.cli.command import Invocation, OnlyAgent, command, home_of
from holdfast.cli.output import OK, Output
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.files import is_out_of_space, unwritable

STDOUT = Path("-")


class ExportFormat(Enum):
    JSONL = "jsonl"
    MARKDOWN = "markdown"


ToFile = Annotated[Path, typer.Argument(metavar="FILE", help="The new file; `-` is the standard output.")]
FromFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file of an export.")]
OnlyChat = Annotated[str | None, typer.Option("--chat", help="Only this chat: its address, or the end of it.")]
OnlySession = Annotated[str | None, typer.Option("--session", help="Only this session; as Markdown.")]
Format = Annotated[ExportFormat, typer.Option("--format", help="`jsonl` can be imported; `markdown` is for people.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the file, and import nothing.")]


@command()
async def export(
    invocation: Invocation,
    *,
    file: ToFile,
    agent: OnlyAgent = None,
    chat: OnlyChat = None,
    session: OnlySession = None,
    format: Format = ExportFormat.JSONL,
) -> Output | int:
    """Export an agent, a chat or everything.

    The export has sessions with their journals, turns and summaries, notes, attachments and links of accounts, and what
    was delivered to memory. It may be made beside a serving process. What is under way is not in it: messages that wait
    for their answer stay with this store. `holdfast backup` copies a whole data folder.

    \b
    Examples:
      holdfast export everything.jsonl
      holdfast export fern.jsonl --agent fern
      holdfast export chat.md --chat agent:main:telegram:dm:42 --format markdown
    """
    from holdfast.cli.progress import progress_of_parts
    from holdfast.monitor.status import plural
    from holdfast.runtime import transfer

    if session and format is not ExportFormat.MARKDOWN:
        raise InvalidInput("one session is exported as Markdown only: its chat or agent can be imported")
    counts = transfer.ExportCounts()
    async with invocation.visiting() as runtime:
        scope = await transfer.find_scope(runtime.db, agent=agent or "", chat=chat or "", session=session or "")
        with progress_of_parts("export") as tell:
            if format is ExportFormat.MARKDOWN:
                texts = transfer.export_markdown(runtime, scope, counts, tell, _utc)
                await _write(file, (f"{text}\n".encode() async for text in texts))
            else:
                await _write(file, (line + b"\n" async for line in transfer.export(runtime, scope, counts, tell)))
    if file == STDOUT:
        return OK
    view = {
        "file": str(file),
        "scope": scope.words,
        "sessions": counts.sessions,
        "rows": counts.end.rows,
        "sha256": counts.end.sha256,
        "under_way": counts.under_way,
    }
    text = [f"{file}: {scope.words}, {plural(counts.sessions, 'session', 'sessions')}"]
    if counts.end.sha256:
        text[0] += f", {counts.end.rows} rows; digest {counts.end.sha256}"
    if counts.under_way:
        text.append(f"Not in it: {plural(counts.under_way, 'message', 'messages')} without an answer yet.")
    return Output(view, *text)


@command()
async def import_(invocation: Invocation, *, file: FromFile, dry_run: DryRun = False) -> Output:
    """Import an export into a data folder that no process serves.

    The file is checked whole first. All of it is imported, or nothing. What is in the store already with the same
    content is left alone, so a repeated import does nothing; other content under the same id is refused. What was
    delivered to memory is not delivered again, and replies are not sent again.

    \b
    Examples:
      holdfast import everything.jsonl --data ./new
      holdfast import fern.jsonl --dry-run
    """
    from holdfast.cli.progress import progress_of_parts
    from holdfast.runtime import transfer
    from holdfast.runtime.app import data_folder
    from holdfast.store.sqlite.owner import OwnerLock

    place = home_of(file)
    with progress_of_parts("import") as tell:
        end = transfer.check_export(place, tell)
    view = {"file": str(place), "rows": end.rows, "sha256": end.sha256}
    if dry_run:
        return Output({**view, "imported": False, "new": {}}, f"{place} is whole: {end.rows} rows; digest {end.sha256}")
    lock = OwnerLock(data_folder(invocation.folder))
    lock.acquire()
    try:
        async with invocation.visiting(make=True, act="sessions.imported", on=end.sha256) as runtime:
            with progress_of_parts("import") as tell:
                done = await transfer.import_export(runtime, invocation.folder, place, end, tell)
    finally:
        lock.release()
    new = ", ".join(f"{n} {table}" for table, n in done.new.items())
    text = f"Imported from {place}: {new}." if new else f"Nothing is new in {place}: all of it is in the store."
    return Output({**view, "imported": True, "new": dict(done.new)}, text)


def _utc(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


async def _write(file: Path, chunks: AsyncIterator[bytes]) -> None:
    if file == STDOUT:
        async for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    with _new_file(home_of(file)) as opened:
        async for chunk in chunks:
            opened.write(chunk)


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that only its owner can read; removed if it is not finished."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already and was not changed; name another file") from error
    except OSError as error:
        if is_out_of_space(error):
            raise unwritable(str(path), error) from error
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise unwritable(f"{path} cannot be written", error) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise
