"""Export of an agent, a chat or everything, and import into another store."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import holdfast
from holdfast.audit.actor import acting
from holdfast.kernel.errors import AddressNotFound, AgentNotFound, InvalidInput
from holdfast.kernel.ids import SessionId
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.history_sql import list_entries, read_session
from holdfast.store.backup.restoring import renew_index
from holdfast.store.encryption.changing import INDEXES
from holdfast.store.encryption.marker import key_of
from holdfast.store.ports import Database
from holdfast.transfer import export_sql
from holdfast.transfer.export_sql import ExportedMailbox
from holdfast.transfer.import_sql import import_rows
from holdfast.transfer.lines import ExportDigest, ExportEnd, ImportedRow, check_whole, header, rows_in
from holdfast.transfer.markdown import When, session_markdown
from holdfast.turns.journal import EntryView

ENTRIES_PAGE = 500
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportScope:
    """What is exported, in words, and its parts."""

    words: str
    mailboxes: Sequence[ExportedMailbox]
    sessions: Sequence[str]
    streams: Sequence[str]


@dataclass(slots=True)
class ExportCounts:
    sessions: int = 0
    under_way: int = 0  # messages that wait or are being answered, which are not exported
    end: ExportEnd = field(default_factory=lambda: ExportEnd(0, ""))


async def find_scope(db: Database, *, agent: str, chat: str, session: str) -> ExportScope:
    """Raises `AgentNotFound`, `AddressNotFound`, `SessionNotFound`, and `InvalidInput` for several chats of a name."""
    mailboxes = await db.read(export_sql.list_mailboxes(agent))
    if session:
        await db.read(read_session(SessionId(session)))
        return ExportScope(words=f"session {session}", mailboxes=(), sessions=(session,), streams=())
    if chat:
        found = [one for one in mailboxes if one.address == chat or one.address.endswith(f":{chat}")]
        if not found:
            raise AddressNotFound(f"there is no chat {chat!r}", address=chat)
        if len(found) > 1:
            raise InvalidInput(f"several chats are called {chat!r}: {', '.join(one.address for one in found)}")
        sessions = await db.read(export_sql.list_exported_sessions(mailbox=found[0].id))
        return ExportScope(words=f"chat {found[0].address}", mailboxes=found, sessions=sessions, streams=())
    sessions = await db.read(export_sql.list_exported_sessions(agent))
    streams = await db.read(export_sql.list_streams(agent))
    if agent and not (mailboxes or sessions or streams):
        raise AgentNotFound(f"nothing of the agent {agent!r} is in the store", agent=agent)
    words = f"agent {agent}" if agent else "everything"
    return ExportScope(words=words, mailboxes=mailboxes, sessions=sessions, streams=streams)


async def export(runtime: Runtime, scope: ExportScope, counts: ExportCounts, tell: Tell) -> AsyncIterator[bytes]:
    """The lines of an export, without line breaks. Each session and each mailbox is read as of one moment."""
    db, digest = runtime.db, ExportDigest()
    yield header(holdfast=holdfast.__version__, at=runtime.clock.now(), scope=scope.words)
    async for line in _rows(db, scope, counts, tell):
        digest.add(line)
        yield line
    counts.end = digest.end()
    yield digest.end_line()


async def _rows(db: Database, scope: ExportScope, counts: ExportCounts, tell: Tell) -> AsyncIterator[bytes]:
    hashes: set[str] = set()
    for mailbox in scope.mailboxes:
        counts.under_way += await db.read(export_sql.count_under_way(mailbox.id))
        hashes |= set(await db.read(export_sql.list_hashes(mailbox.id)))
    pages = [
        *(export_sql.export_attachment(hash_) for hash_ in sorted(hashes)),
        *(export_sql.export_mailbox(mailbox.id) for mailbox in scope.mailboxes),
        *(export_sql.export_stream(stream) for stream in scope.streams),
    ]
    for page in pages:
        for line in await db.read(page):
            yield line
    async for line in _sessions(db, scope, counts, tell):
        yield line


async def _sessions(db: Database, scope: ExportScope, counts: ExportCounts, tell: Tell) -> AsyncIterator[bytes]:
    """The sessions, and the accounts that are linked to those who spoke in them."""
    people: set[str] = set()
    for n, session in enumerate(scope.sessions, 1):
        tell("exporting sessions", n, len(scope.sessions))
        for line in await db.read(export_sql.export_session(session)):
            yield line
        people |= set(await db.read(export_sql.list_speakers(session)))
        counts.sessions += 1
    linked: set[bytes] = set()
    for person in sorted(people):
        linked |= set(await db.read(export_sql.export_person(person)))
    for line in sorted(linked):
        yield line


async def export_markdown(
    runtime: Runtime, scope: ExportScope, counts: ExportCounts, tell: Tell, when: When
) -> AsyncIterator[str]:
    """Each session as a text for people."""
    for n, id_ in enumerate(scope.sessions, 1):
        tell("exporting sessions", n, len(scope.sessions))
        session = await runtime.db.read(read_session(SessionId(id_)))
        entries: list[EntryView] = []
        after = 0
        while page := await runtime.db.read(list_entries(SessionId(id_), after=after, limit=ENTRIES_PAGE)):
            entries += page
            after = page[-1].entry.seq
        counts.sessions += 1
        yield session_markdown(session, entries, when)


# --- import --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    end: ExportEnd
    new: Mapping[str, int]


def check_export(file: Path, tell: Tell) -> ExportEnd:
    """Read an export whole, and every row of it. Raises `ExportInvalid` and `ExportNewer`."""
    tell("checking the export", 0, 1)
    end = check_whole(_lines(file))
    for n, _ in enumerate(_read_rows(file), 1):
        tell("checking the export", n, end.rows)
    return end


async def import_export(runtime: Runtime, folder: Path, file: Path, end: ExportEnd, tell: Tell) -> Imported:
    """Import a checked export into a store that nothing serves. Raises `ImportConflict`; then nothing is imported."""

    def read() -> Iterator[ImportedRow]:
        for n, row in enumerate(_read_rows(file), 1):
            tell("importing", n, end.rows)
            yield row

    new = await runtime.db.write(import_rows(end.sha256, read, by=acting()))
    if new.get("delivery"):
        _renew_indexes(folder)
    return Imported(end=end, new=new)


def _renew_indexes(folder: Path) -> None:
    """Let the next start fill the search indexes again: they lack what was delivered elsewhere."""
    key = key_of(folder)
    for path in folder.glob(INDEXES):
        renew_index(path, None if key is None else key.of_databases)


def _read_rows(file: Path) -> Iterable[ImportedRow]:
    return rows_in(_lines(file))


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as opened:
            for line in opened:
                yield line.rstrip(b"\r\n")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
