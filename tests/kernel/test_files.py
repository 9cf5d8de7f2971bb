"""A full disk is `store_full` for every file that does not fit, never `store_unavailable` or `store_read_only`.

Here the system's answer is injected; `make test-full-disk` tries the same on a disk that is full.
"""

import errno
import os
from pathlib import Path

import apsw
import pytest

from holdfast.api.auth.operator_token import load_token
from holdfast.cli import init
from holdfast.kernel.errors import (
    HoldfastError,
    StoreBroken,
    StoreFull,
    StorePathInvalid,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.kernel.files import is_out_of_space, unwritable, why_unusable
from holdfast.providers.local import index_file as index
from holdfast.runtime.app import data_folder
from holdfast.store.sqlite import faults, opening, path
from holdfast.store.sqlite.connection import open_connection
from holdfast.store.sqlite.owner import PID_NAME, OwnerLock
from holdfast.testing import SeededEntropy

FULL = [errno.ENOSPC, errno.EDQUOT]
OTHER = [errno.EACCES, errno.EROFS, errno.EIO]
VFS = "without-space"


def failing(number: int, at: str):
    """`os.open` and the like, which fail for names that end with `at`."""
    real = os.open

    def opened(name, *more, **named):
        if str(name).endswith(at):
            raise OSError(number, os.strerror(number), str(name))
        return real(name, *more, **named)

    return opened


@pytest.mark.parametrize(("number", "kind"), [*((n, StoreFull) for n in FULL), *((n, StoreReadOnly) for n in OTHER)])
def test_what_the_system_says_about_a_file_decides_which_error_it_is(number, kind):
    error = OSError(number, "words of the system")
    found = unwritable("the file cannot be made", error)
    assert type(found) is kind
    assert kind is StoreFull or str(found) == "the file cannot be made: words of the system"
    assert is_out_of_space(error) is (kind is StoreFull)
    assert ("no space is left on the disk" in why_unusable(error)) is (kind is StoreFull)


@pytest.mark.parametrize("number", FULL)
def test_a_database_a_token_a_lock_and_a_folder_that_do_not_fit_are_a_full_disk(tmp_path, monkeypatch, number):
    monkeypatch.setattr(os, "open", failing(number, "holdfast.db"))
    with pytest.raises(StoreFull, match="no space is left"):
        open_connection(tmp_path / "holdfast.db")
    monkeypatch.setattr(os, "open", failing(number, "token"))
    with pytest.raises(StoreFull, match="no space is left"):
        load_token(tmp_path, None, SeededEntropy(1))

    def no_room(*_args: object, **_more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", failing(number, PID_NAME))
    with pytest.raises(StoreFull, match="cannot be locked"):
        OwnerLock(tmp_path).acquire()
    assert not (tmp_path / PID_NAME).exists()
    monkeypatch.setattr(Path, "mkdir", no_room)
    with pytest.raises(StoreFull, match="cannot be made"):
        data_folder(tmp_path / "new")


@pytest.mark.parametrize("had_one", [False, True])
def test_a_configuration_that_does_not_fit_leaves_what_was_there(tmp_path, monkeypatch, had_one):
    file = tmp_path / "holdfast.toml"
    if had_one:
        file.write_text("# mine")
    real = os.fdopen

    def fdopen(handle, *more, **named):
        opened = real(handle, *more, **named)
        opened.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", fdopen)
    with pytest.raises(StoreFull, match="no space is left"):
        init.write(file, "# new", force=had_one)
    assert [one.read_text() for one in tmp_path.iterdir()] == (["# mine"] if had_one else [])


class Unroomy(apsw.VFS):
    """The real file layer, which has no space for some files, and remembers what the system said."""

    def __init__(self, error: apsw.Error, number: int, suffix: str) -> None:
        super().__init__(VFS, "")
        self.error, self.number, self.suffix = error, number, suffix

    def xOpen(self, name, flags):  # noqa: N802
        path = name if isinstance(name, str) or name is None else name.filename()
        if path and path.endswith(self.suffix):
            raise self.error
        return super().xOpen(name, flags)

    def xGetLastError(self):  # noqa: N802
        return self.number, os.strerror(self.number)


@pytest.mark.parametrize(
    ("open_it", "suffix"),
    [(open_connection, "-journal"), (opening.open_ready, "-wal")],
    ids=["the journal of a connection", "the log of a store"],
)
@pytest.mark.parametrize(
    ("error", "number", "kind"),
    [
        (apsw.IOError("x"), errno.ENOSPC, StoreFull),
        (apsw.IOError("x"), errno.EDQUOT, StoreFull),
        (apsw.CantOpenError("x"), errno.ENOSPC, StoreFull),
        (apsw.FullError("x"), 0, StoreFull),
        (apsw.IOError("x"), errno.EIO, StoreUnavailable),
        (apsw.CantOpenError("x"), errno.EMFILE, StorePathInvalid),
    ],
)
def test_a_log_that_cannot_be_made_is_told_by_what_the_system_said(tmp_path, *, open_it, suffix, error, number, kind):
    vfs = Unroomy(error, number, suffix)
    try:
        with pytest.raises(HoldfastError) as caught:
            open_it(str(tmp_path / "holdfast.db"), vfs=VFS, exclusive=True)
        assert type(caught.value) is kind
    finally:
        vfs.unregister()


class Connection:
    """As much of a connection as an error is judged by."""

    def __init__(self, folder: Path, number: int) -> None:
        self.filename = str(folder / "holdfast.db")
        self.system_errno = number


def test_a_file_that_cannot_be_opened_for_an_unknown_reason_has_the_disk_asked(tmp_path, monkeypatch):
    db, error = Connection(tmp_path, 0), apsw.CantOpenError("unable to open database file")
    assert type(faults.translate(error, "opening", db)) is StorePathInvalid  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "write", lambda _handle, data: len(data) - 1)
    assert type(faults.translate(error, "opening", db)) is StoreFull  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr(os, "open", failing(errno.ENOSPC, f".space-{os.getpid()}"))
    assert not path.has_space(tmp_path)


def test_a_commit_of_unknown_outcome_on_a_full_disk_still_stops_the_process(tmp_path):
    """The log may hold the transaction whose place in the index did not fit: it is not known to be undone."""
    found = faults.broken_by(apsw.IOError("x"), "accept", Connection(tmp_path, errno.ENOSPC))  # type: ignore[arg-type]
    assert type(found) is StoreBroken
    assert "no space is left on the disk" in str(found)


@pytest.mark.parametrize(("number", "is_full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_the_search_index_tells_a_full_disk(tmp_path, number, is_full):
    db, error = Connection(tmp_path, number), apsw.IOError("disk I/O error")
    assert ("no space is left" in index.why(error, db)) is is_full  # type: ignore[arg-type]
    assert (index.out_of_space(error, db) is not None) is is_full  # type: ignore[arg-type]
    assert "no space is left" in index.why(apsw.FullError("x"))
    assert ("no space is left" in index.why(OSError(number, "x"))) is is_full
