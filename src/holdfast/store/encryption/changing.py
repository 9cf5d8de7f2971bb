"""Encrypt, rekey or decrypt a data folder, file by file. The caller holds the folder's owner lock.

Rule 1: each file is rewritten beside the old one, checked, and renamed over it. A killed process leaves every file
        complete, under the old key or the new one.
Rule 2: the marker records the change before the first file and until after the last, so no process opens the folder
        in between; repeating the same change resumes it.
Rule 3: the store is last, and its new file contains the audit row: both take effect with one rename, so a resumed
        change has one row.
Rule 4: a database is replaced under SQLite's exclusive lock, so a process that has it open is detected and nothing
        is changed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from holdfast.audit import action_sql
from holdfast.audit.action import Act, By
from holdfast.kernel import errors
from holdfast.kernel.files import sync_folder, unwritable
from holdfast.kernel.ports import Clock, Entropy
from holdfast.store.encryption.databases import address_of, can_encrypt, unlock
from holdfast.store.encryption.key import SALT_BYTES, EncryptionKey
from holdfast.store.encryption.log_lines import LineCipher, translated
from holdfast.store.encryption.marker import (
    FORMAT,
    KeySource,
    Lock,
    Marker,
    new_lock,
    read_marker,
    unlocked,
    write_marker,
)
from holdfast.store.script import Call
from holdfast.store.sqlite.batch import run_batch

STORE = "holdfast.db"
INDEXES = "agents/*/*/recall.db"
DAMAGED = f"{INDEXES}.damaged-*"  # unreadable, so never encrypted; the index is rebuilt
LOGS = "holdfast.log*"
PLAIN = ("agents/**/*.md", "agents/**/*.md.*")  # files that people read and edit
PART = ".rekey"
BUSY_MS = 2_000
SUBJECT = "data folder"  # in the audit trail


@dataclass(frozen=True, slots=True)
class Changed:
    """The files that a change rewrote, removed, and left readable on purpose."""

    files: tuple[str, ...]
    removed: tuple[str, ...]
    readable: tuple[str, ...]


def change_key(
    folder: Path,
    to: KeySource | None,
    entropy: Entropy,
    *,
    clock: Clock,
    by: By,
    on_file: Callable[[str, int, int], None] = lambda *_: None,
) -> Changed:
    """Re-encrypt the folder under another key; None decrypts it. `on_file` receives name, number and count.

    No act is recorded in a folder without a store, or in a store of a release before the audit trail.

    Raises `EncryptionKeyMissing`, `EncryptionKeyWrong`, `EncryptionKeyInvalid`, `EncryptionUnavailable`,
    `EncryptionUnfinished` if another change is in progress, `StoreOwned`, `StoreFull`, `StoreCorrupt`.
    """
    if not can_encrypt():
        raise errors.EncryptionUnavailable("the SQLite library in use cannot encrypt")
    marker = _begun(folder, to, entropy)
    former, now = _key(marker.former), _key(marker.now)
    for part in _found(folder, tuple(f"{one}{PART}" for one in (INDEXES, LOGS, STORE))):
        part.unlink(missing_ok=True)
    files = _files(folder)
    for n, path in enumerate(files, 1):
        on_file(path.relative_to(folder).as_posix(), n, len(files))
        if path.name == STORE:
            _change_database(path, former, now, lambda db: _record(db, marker, clock, by))
        elif path.match(LOGS):
            _change_log(path, former, now)
        else:
            _change_database(path, former, now)
    removed = _remove_damaged(folder)
    write_marker(folder, None if marker.now is None else Marker(FORMAT, now=marker.now))
    return Changed(_names(folder, files), removed, _names(folder, _found(folder, PLAIN)))


def _begun(folder: Path, to: KeySource | None, entropy: Entropy) -> Marker:
    """The change in progress, or a new one."""
    marker = read_marker(folder)
    if marker is not None and marker.changing:
        wanted = None if marker.now is None else marker.now.source
        if wanted != to:
            what = "to be decrypted" if wanted is None else f"to be encrypted with the key of {wanted}"
            raise errors.EncryptionUnfinished(f"{folder} was {what}, and that is not finished", path=str(folder))
        return marker
    former = marker.now if marker is not None else None
    if former is None and to is None:
        raise errors.InvalidInput(f"{folder} is not encrypted")
    key = _key(former)
    now = None if to is None else new_lock(to, entropy.bits(SALT_BYTES * 8).to_bytes(SALT_BYTES, "big"))
    begun = Marker(FORMAT, now=now, former=former, changing=True)
    for path in _found(folder, (INDEXES, STORE)):
        if path.is_file():
            _refuse_open_elsewhere(path, key)
    write_marker(folder, begun)
    return begun


def _key(lock: Lock | None) -> EncryptionKey | None:
    return None if lock is None else unlocked(lock)


# --- databases ---------------------------------------------------------------------------------------


Finish = Callable[[apsw.Connection], None]  # writes to a copy before the rename


def _change_database(
    path: Path, former: EncryptionKey | None, now: EncryptionKey | None, finish: Finish = lambda _: None
) -> None:
    if path.stat().st_size == 0 or _is_readable(path, now):
        return
    if not _is_readable(path, former):
        raise errors.StoreCorrupt(f"{path} cannot be read with either key; it was left as it is", path=str(path))
    part = path.with_name(f"{path.name}{PART}")
    try:
        _exchange(path, part, former, now, finish)
    except apsw.FullError as error:
        raise errors.StoreFull(f"there is no space for a second copy of {path}", path=str(path)) from error
    except OSError as error:
        raise unwritable(f"{path} cannot be exchanged", error, path=str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def _exchange(path: Path, part: Path, former: EncryptionKey | None, now: EncryptionKey | None, finish: Finish) -> None:
    with _opened(path, former, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI) as db:
        _take_alone(db)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # `vacuum into` accepts an empty file
        db.execute("vacuum into ?", (address_of(str(part), now.of_databases if now else None),)).fetchall()
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
        _verify(db, part, now)
        _finish(part, now, finish)
        _sync(part)
        part.replace(path)  # under the lock: no process writes to the old file
        sync_folder(path.parent)


def _verify(db: apsw.Connection, part: Path, now: EncryptionKey | None) -> None:
    """Raise `StoreCorrupt` if the copy differs from its source."""
    with _opened(part, now, apsw.SQLITE_OPEN_READONLY) as copy:
        facts = [_facts(one) for one in (db, copy)]
        problem = copy.execute("pragma quick_check(1)").fetchall()[0][0]
    if facts[0] != facts[1] or problem != "ok":
        raise errors.StoreCorrupt(f"the copy in {part} differs from its original ({problem}); nothing was exchanged")


def _finish(part: Path, now: EncryptionKey | None, finish: Finish) -> None:
    """Write to the copy without a journal: SQLite would replay a leftover journal into the next copy."""
    with _opened(part, now) as copy:
        copy.execute("pragma journal_mode=memory").fetchall()
        finish(copy)


def _record(db: apsw.Connection, marker: Marker, clock: Clock, by: By) -> None:
    """Record the change in a database file that no engine has open."""
    if not db.execute("select 1 from sqlite_schema where type='table' and name='action'").fetchall():
        return
    detail = {} if marker.now is None else {"key": marker.now.kind}
    keyed = Act.DATA_REKEYED if marker.former else Act.DATA_ENCRYPTED
    act = Act.DATA_DECRYPTED if marker.now is None else keyed
    (done,) = run_batch(db, [Call("record_action", lambda: action_sql.record(act, by, SUBJECT, **detail))], clock)
    if done.error is not None:
        raise done.error


def _facts(db: apsw.Connection) -> list[object]:
    tables = [name for (name,) in db.execute("select name from sqlite_schema where type='table' order by name")]
    counts = [db.execute(f'select count(*) from "{name}"').fetchall()[0][0] for name in tables]
    return [db.pragma("application_id"), db.pragma("user_version"), tables, counts]


def _is_readable(path: Path, key: EncryptionKey | None) -> bool:
    try:
        with _opened(path, key) as db:
            db.execute("select count(*) from sqlite_schema").fetchall()
    except apsw.NotADBError:
        return False
    return True


@contextmanager
def _opened(
    path: Path, key: EncryptionKey | None, flags: int = apsw.SQLITE_OPEN_READWRITE
) -> Iterator[apsw.Connection]:
    """A connection for the block. Raises `StoreOwned` if another process has the file open."""
    db = apsw.Connection(str(path), flags=flags)
    if key is not None:
        unlock(db, key.of_databases)
    db.set_busy_timeout(BUSY_MS)
    try:
        yield db
    except apsw.BusyError as error:
        raise errors.StoreOwned(f"another process has {path} open", path=str(path)) from error
    finally:
        db.close(True)


def _refuse_open_elsewhere(path: Path, key: EncryptionKey | None) -> None:
    """Raise `StoreOwned`, before any change, if a process has the file open; readers and senders hold no owner lock."""
    try:
        with _opened(path, key) as db:
            _take_alone(db)
    except apsw.NotADBError as error:
        raise errors.StoreCorrupt(f"{path} is no database, or encrypted with another key", path=str(path)) from error


def _take_alone(db: apsw.Connection) -> None:
    db.execute("pragma locking_mode=exclusive").fetchall()
    db.execute("begin exclusive; commit").fetchall()


# --- the log -----------------------------------------------------------------------------------------


def _change_log(path: Path, former: EncryptionKey | None, now: EncryptionKey | None) -> None:
    part = path.with_name(f"{path.name}{PART}")
    ciphers = [None if key is None else LineCipher(key) for key in (former, now)]
    try:
        handle = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with path.open(encoding="utf-8", errors="replace") as lines, os.fdopen(handle, "w", encoding="utf-8") as new:
            for line in translated((line.rstrip("\n") for line in lines), *ciphers):
                new.write(f"{line}\n")
        _sync(part)
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise unwritable(f"{path} cannot be exchanged", error, path=str(path)) from error
    finally:
        part.unlink(missing_ok=True)


# --- files -------------------------------------------------------------------------------------------


def _files(folder: Path) -> list[Path]:
    """The files to change, in order; the store is last (rule 3)."""
    return [path for path in _found(folder, (INDEXES, LOGS, STORE)) if path.is_file()]


def _found(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    return (path for pattern in patterns for path in sorted(folder.glob(pattern)))


def _remove_damaged(folder: Path) -> tuple[str, ...]:
    gone = sorted(folder.glob(DAMAGED))
    for path in gone:
        path.unlink(missing_ok=True)
    return _names(folder, gone)


def _names(folder: Path, paths: "Iterator[Path] | list[Path]") -> tuple[str, ...]:
    return tuple(path.relative_to(folder).as_posix() for path in paths)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
