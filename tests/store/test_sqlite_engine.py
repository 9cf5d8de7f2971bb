"""The SQLite engine: what it refuses to open, what is in force when it does, and when a caller hears.

What a disk can do to it is in tests/disk. Here the files are real.

Rules: D27, D28, D29, control 9.
"""

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apsw
import pytest

from holdfast.kernel.errors import (
    EngineUnsafe,
    InvalidInput,
    InvariantBroken,
    StoreBroken,
    StoreCorrupt,
    StoreFull,
    StoreNewer,
    StoreOwned,
    StorePathInvalid,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.kernel.ids import Instant
from holdfast.store.script import Call, Many, Query, Script, one, rows, run
from holdfast.store.sqlite import OwnerLock, ThreadedDatabase, migrate, open_connection, opening
from holdfast.store.sqlite import batch as batch_module
from holdfast.store.sqlite.batch import run_batch
from holdfast.store.sqlite.checkpointer import WAL_BYTES_MAX
from holdfast.store.sqlite.connection import APPLICATION_ID, pragma, refuse_unsafe_engine
from holdfast.store.sqlite.migrate import in_sqlite_words, load_migrations
from holdfast.store.sqlite.path import file_system
from holdfast.store.sqlite.writer import GAP_S, WriterWorker
from holdfast.testing.inline_database import InlineDatabase

GATE_S = 120  # as long as a test may take; then a thread of a failed test goes on, and the process can end
SCHEMA = ("create table thing (n integer primary key, word text not null, at integer) strict",)


class Clock:
    """Every question moves it by one."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> Instant:
        self.time += 1
        return Instant(self.time)


def add(n: int, word: str = "word") -> Callable[[], Script[int]]:
    def script() -> Script[int]:
        yield from run("insert into thing values (:n, :word, :now)", n=n, word=word)
        return n

    return script


async def until(happened: Callable[[], bool]) -> None:
    """Let others run until it has happened; the writer's threads cannot set an event of the loop."""
    while not happened():  # noqa: ASYNC110
        await asyncio.sleep(0)


def count() -> Script[int]:
    found = yield from rows("select count(*) from thing")
    return int(found[0][0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
async def db(path):
    database = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    yield database
    await database.close()


# --- what it refuses to open ---------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
async def test_between_batches_others_who_share_the_file_get_their_turn(tmp_path, monkeypatch, shared):
    """SQLite's lock is not fair: a writer that begins again at once keeps every other process out (D29)."""
    gaps: list[float] = []
    db = ThreadedDatabase.open(tmp_path / "t.db", Clock(), migrations=SCHEMA, shared=shared)
    monkeypatch.setattr(db._writer, "_pause", Mock(wait=gaps.append))
    for n in range(3):
        await db.write(Call("add", add(n)))
    await db.close()
    assert set(gaps) == ({GAP_S} if shared else set())


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.44.5", "3.50.6", "3.51.2"])
def test_a_sqlite_that_can_lose_a_log_is_refused(version):
    with pytest.raises(EngineUnsafe, match=version):
        refuse_unsafe_engine(version)


@pytest.mark.parametrize("version", ["3.44.6", "3.50.7", "3.51.3", "3.54.0", "4.0.0"])
def test_a_sqlite_with_the_fix_is_accepted(version):
    refuse_unsafe_engine(version)


def test_opening_asks_for_the_version_of_the_library_in_use(path, monkeypatch):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(EngineUnsafe):
        open_connection(path)
    assert not path.exists()


def test_a_folder_in_place_of_the_file_is_refused(path):
    path.mkdir()
    with pytest.raises(StorePathInvalid, match="is a folder"):
        open_connection(path)


def test_a_missing_folder_is_refused(path):
    with pytest.raises(StorePathInvalid, match="does not exist"):
        open_connection(path / "deeper" / "holdfast.db")


def test_a_network_file_system_is_refused(path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.path.file_system", lambda folder: "nfs4")
    with pytest.raises(StorePathInvalid, match=r"network file system \(nfs4\)"):
        open_connection(path)


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path):
    mounts = tmp_path / "mounts"
    shared = tmp_path / "with space"
    shared.mkdir()
    escaped = str(shared).replace(" ", "\\040")
    mounts.write_text(f"/dev/root / ext4 rw 0 0\nhost:/x {escaped} nfs4 rw 0 0\n")
    assert file_system(shared, mounts) == "nfs4"
    assert file_system(tmp_path, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "no such table") is None


def test_a_folder_that_cannot_be_written_is_refused(path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.path.os.access", lambda what, mode: False)
    with pytest.raises(StoreReadOnly, match=str(path.parent)):
        open_connection(path)
    assert not path.exists()


class ReadOnlyVfs(apsw.VFS):
    """Opens files as SQLite does when it lacks the permission to write: for reading, without a word."""

    def __init__(self) -> None:
        super().__init__("reading", "")

    def xOpen(self, name, flags):  # noqa: N802
        wanted = (flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)) | apsw.SQLITE_OPEN_READONLY
        opened = [wanted, 0]
        file = apsw.VFSFile("", name, opened)
        flags[1] = opened[1]
        return file


def test_a_file_that_cannot_be_written_is_refused(path):
    open_connection(path).close()
    vfs = ReadOnlyVfs()
    try:
        with pytest.raises(StoreReadOnly, match=str(path)):
            open_connection(path, vfs="reading")
    finally:
        vfs.unregister()


def test_a_reader_makes_no_file(path):
    with pytest.raises(StorePathInvalid, match="there is no database"):
        open_connection(path, readonly=True)
    assert not path.exists()


def test_a_text_file_is_refused_and_kept(path):
    path.write_bytes(b"Dear diary, " * 500)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=str(path)):
        open_connection(path)
    assert path.read_bytes() == before


def test_a_damaged_header_is_refused_and_kept(path):
    make(path)
    content = bytearray(path.read_bytes())
    content[0:40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt):
        ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    assert path.read_bytes() == bytes(content)


def test_a_damaged_schema_page_is_refused_and_kept(path):
    make(path)
    content = bytearray(path.read_bytes())
    content[100:120] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt):
        ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    assert path.read_bytes() == bytes(content)


async def test_a_damaged_page_met_later_fails_the_call_as_corrupt(path):
    make(path, things=2_000)
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    db = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    with pytest.raises(StoreCorrupt):
        await db.read(Call("count", lambda: rows("select sum(length(word)) from thing")))
    with pytest.raises(StoreCorrupt):
        await db.write(Call("add", add(1_000_000)))
    await db.close()


def test_the_database_of_another_program_is_refused_and_kept(path):
    foreign = apsw.Connection(str(path))
    foreign.execute("create table bookmarks (url text)")
    foreign.close()
    before = path.read_bytes()
    with pytest.raises(StorePathInvalid, match="is not a Holdfast database"):
        open_connection(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_and_kept(path):
    make(path)
    db = open_connection(path)
    db.execute("pragma user_version=7")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match="schema 7"):
        ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    assert path.read_bytes() == before


def test_a_newer_schema_with_a_log_left_behind_keeps_file_and_log(path):
    make(path)
    inline = InlineDatabase(path, Clock(), migrations=SCHEMA)
    inline._db.execute("pragma user_version=7")
    inline.crash()
    wal = path.with_name("holdfast.db-wal")
    before = path.read_bytes(), wal.read_bytes()
    with pytest.raises(StoreNewer):
        ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    assert (path.read_bytes(), wal.read_bytes()) == before


def make(path: Path, things: int = 1) -> None:
    db = open_connection(path)
    migrate(db, path, SCHEMA)
    db.execute("begin")
    db.executemany("insert into thing values (?, ?, 0)", ((n, "word" * 20) for n in range(things)))
    db.execute("commit")
    db.close()


# --- what is in force ----------------------------------------------------------------------------


def test_every_pragma_is_in_force(path):
    db = open_connection(path)
    assert {name: pragma(db, name) for name in ("journal_mode", "synchronous", "page_size")} == {
        "journal_mode": "wal",
        "synchronous": 3,
        "page_size": 4096,
    }
    assert pragma(db, "busy_timeout") == 5_000
    assert pragma(db, "wal_autocheckpoint") == 0
    assert pragma(db, "foreign_keys") == 0
    assert pragma(db, "temp_store") == 2
    assert pragma(db, "fullfsync") == (sys.platform == "darwin")
    assert pragma(db, "checkpoint_fullfsync") == (sys.platform == "darwin")
    db.close()


def test_a_statement_is_compiled_once_whatever_is_bound_to_it(path):
    """SQLite else compiles it anew each time, in case another value deserves another plan; that costs five runs."""
    db = open_connection(path)
    db.execute("create table thing (n integer primary key)")
    compiled: list[int] = []  # what each run of the statement asked the authorizer, who is asked by the compiler only

    def authorize(*_: object) -> int:
        compiled[-1] += 1
        return apsw.SQLITE_OK

    db.authorizer = authorize
    for n in range(3):
        compiled.append(0)
        db.execute("select n from thing where n > :n limit :n", {"n": n}).fetchall()
    assert compiled[0] > 0
    assert compiled[1:] == [0, 0]
    db.close()


def test_the_order_of_the_pragmas_is_the_one_that_loses_nothing(path, monkeypatch):
    """tests/disk shows what another order loses; this says which pragma to look for."""
    statements: list[str] = []
    real = apsw.Connection

    class Recording(real):  # type: ignore[misc, valid-type]
        def execute(self, sql: str, *args: Any, **kwargs: Any) -> Any:
            statements.append(sql)
            return super().execute(sql, *args, **kwargs)

    monkeypatch.setattr(apsw, "Connection", Recording)
    open_connection(path).close()
    assert statements[0] == "pragma busy_timeout=5000"
    assert statements.index("pragma synchronous=extra") < statements.index("pragma journal_mode=wal")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
async def test_only_the_owner_can_read_the_files(db, path):
    await db.write(Call("add", add(1)))
    files = [path, path.with_name("holdfast.db-wal"), path.with_name("holdfast.db-shm")]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3


def test_a_new_file_is_marked_as_ours_and_counts_its_steps(path):
    make(path)
    db = open_connection(path)
    assert (pragma(db, "application_id"), pragma(db, "user_version")) == (APPLICATION_ID, 1)
    db.close()


def test_a_step_that_fails_leaves_the_steps_before_it(path):
    db = open_connection(path)
    with pytest.raises(apsw.SQLError):
        migrate(db, path, (*SCHEMA, "create table other (n); create tabel nonsense"))
    assert pragma(db, "user_version") == 1
    assert db.table_exists(None, "other") is False
    db.close()


def test_the_schema_of_this_release_is_accepted_by_sqlite(path):
    db = open_connection(path)
    migrate(db, path, load_migrations())
    assert pragma(db, "user_version") == len(load_migrations())
    assert pragma(db, "integrity_check") == "ok"
    db.close()


def test_types_are_put_into_sqlite_s_words():
    assert in_sqlite_words("a int8, b bytes, c float8, int8x text -- an int8\n) /*strict*/;") == (
        "a integer, b blob, c real, int8x text \n) strict;"
    )


# --- scripts -------------------------------------------------------------------------------------


async def test_a_script_is_given_the_store_s_time_once(db):
    def script() -> Script[list[Any]]:
        yield Query("insert into thing values (1, 'a', :now)", {})
        yield Many("insert into thing values (:n, 'b', :now)", [{"n": 2}, {"n": 3}])
        return (yield from rows("select distinct at from thing"))

    assert len(await db.write(Call("twice", script))) == 1


async def test_a_reader_sees_what_was_answered_before(db):
    for n in range(20):
        await db.write(Call("add", add(n)))
        assert await db.read(Call("count", count)) == n + 1


async def test_a_reader_sees_one_snapshot(db):
    """A write that is answered between two statements of a read stays invisible to it."""
    began, wrote = threading.Event(), threading.Event()

    def script() -> Script[tuple[int, int]]:
        first = yield from count()
        began.set()
        wrote.wait(GATE_S)
        return first, (yield from count())

    reading = asyncio.ensure_future(db.read(Call("count twice", script)))
    await until(began.is_set)
    await db.write(Call("add", add(1)))
    wrote.set()
    assert await reading == (0, 0)


async def test_a_read_that_writes_is_our_bug(db):
    with pytest.raises(InvariantBroken, match="tried to write"):
        await db.read(Call("add", add(1)))
    assert await db.read(Call("count", count)) == 0


async def test_an_outcome_that_is_an_error_leaves_no_trace(db):
    def script() -> Script[None]:
        yield from add(1)()
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        await db.write(Call("refused alone", script))
    assert await db.read(Call("count", count)) == 0


def bug() -> Script[None]:
    yield from add(2)()
    raise ZeroDivisionError


def clash() -> Script[None]:
    yield from add(3)()
    yield from add(3)()


def unbound() -> Script[None]:
    yield from add(4)()
    yield from run("select :missing")


def nonsense() -> Script[None]:
    yield from add(5)()
    yield from run("selekt")


@pytest.mark.parametrize("script", [bug, clash, unbound, nonsense])
def test_a_bug_in_one_script_is_its_own_and_its_neighbours_are_kept(path, script):
    make(path, things=0)
    db = open_connection(path)
    calls = [Call("before", add(10)), Call("wrong", script), Call("after", add(11))]
    before, wrong, after = run_batch(db, calls, Clock())
    assert (before.value, after.value) == (10, 11)
    assert isinstance(wrong.error, InvariantBroken)
    assert wrong.error.__cause__ is not None
    assert db.execute("select n from thing order by n").fetchall() == [(10,), (11,)]
    db.close()


def test_a_transaction_that_sqlite_ended_fails_the_whole_batch(path):
    """If the transaction ends for any reason, the calls beside it get no answer and the rest is not run."""
    make(path, things=0)
    db, ran = open_connection(path), []

    def ends_it() -> Script[None]:
        yield from run("rollback")

    def late() -> Script[None]:
        ran.append("late")
        yield from run("select 1")

    outcomes = run_batch(db, [Call("a", add(1)), Call("b", ends_it), Call("c", late)], Clock())
    assert [type(outcome.error) for outcome in outcomes] == [StoreUnavailable] * 3
    assert ran == []
    assert db.execute("select count(*) from thing").fetchall() == [(0,)]
    db.close()


def reads_damage() -> Script[None]:
    yield from run("insert into thing values (77, 'undone', 0)")
    raise apsw.CorruptError("database disk image is malformed")


def test_damaged_pages_fail_only_the_script_that_reads_them(path):
    make(path, things=0)
    db = open_connection(path)
    before, damaged, after = run_batch(db, [Call("a", add(1)), Call("b", reads_damage), Call("c", add(2))], Clock())
    assert (before.value, type(damaged.error), after.value) == (1, StoreCorrupt, 2)
    assert db.execute("select n from thing order by n").fetchall() == [(1,), (2,)]
    db.close()


def test_a_commit_that_fails_beside_damaged_pages_ends_the_batch(path):
    """The calls before it are answered, those after it do not run, and the engine is broken."""
    make(path, things=0)
    db, ran = open_connection(path), []
    broken: list[StoreBroken] = []

    def fails_to_commit() -> Script[None]:
        yield from run("pragma defer_foreign_keys = on")
        yield from run("insert into child values (99)")

    def late() -> Script[None]:
        ran.append("late")
        yield from run("select 1")

    db.execute("create table child (n integer references thing (n)) strict")
    db.execute("pragma foreign_keys = on")
    writer = WriterWorker(db, Clock(), Mock(), Mock(), shared=False, on_broken=broken.append)
    calls = [Call("a", add(1)), Call("b", fails_to_commit), Call("c", late), Call("d", reads_damage)]
    outcomes = writer.serve(calls)
    assert [type(outcome.error) for outcome in outcomes] == [type(None), *[StoreBroken] * 3]
    assert ran == ["late"]  # in the transaction that met the damage, and not again
    assert broken == [writer.broken]
    assert db.execute("select n from thing").fetchall() == [(1,)]
    db.close()


def test_a_full_database_fails_the_whole_batch_and_the_next_one_works(path):
    make(path, things=0)
    db = open_connection(path)
    db.execute(f"pragma max_page_count={pragma(db, 'page_count') + 5}")
    outcomes = run_batch(db, [Call("small", add(1)), Call("large", add(2, "x" * 100_000))], Clock())
    assert [type(outcome.error) for outcome in outcomes] == [StoreFull] * 2
    assert [outcome.value for outcome in run_batch(db, [Call("small", add(1))], Clock())] == [1]
    db.close()


async def test_a_base_exception_in_a_script_reaches_its_caller_and_the_writer_lives(db):
    def script() -> Script[None]:
        yield from add(1)()
        raise SystemExit

    with pytest.raises(InvariantBroken):
        await db.write(Call("leave", script))
    assert await db.write(Call("add", add(1))) == 1


# --- when a caller hears -------------------------------------------------------------------------


class CommitGate:
    """Holds the writer at its COMMIT and lets the test look at what its callers know by then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_commit, self.go = threading.Event(), threading.Event()
        self.real = batch_module.run_batch
        monkeypatch.setattr("holdfast.store.sqlite.writer.run_batch", self.run_batch)

    def run_batch(self, db: apsw.Connection, calls: list[Call[Any]], clock: Clock, **more: Any) -> Any:
        return self.real(db, calls, clock, self.probe, **more)

    def probe(self, verb: str, statement: str) -> None:
        if statement == "commit":
            self.at_commit.set()
            self.go.wait(GATE_S)


async def test_no_result_is_released_before_its_commit(db, monkeypatch):
    gate = CommitGate(monkeypatch)
    writes = [asyncio.ensure_future(db.write(Call("add", add(n)))) for n in range(5)]
    await until(gate.at_commit.is_set)
    for _ in range(100):
        await asyncio.sleep(0)
    assert [write.done() for write in writes] == [False] * 5
    gate.go.set()
    assert await asyncio.gather(*writes) == [0, 1, 2, 3, 4]


async def test_a_cancelled_caller_disturbs_no_other(db, monkeypatch):
    gate = CommitGate(monkeypatch)
    writes = [asyncio.ensure_future(db.write(Call("add", add(n)))) for n in range(3)]
    await until(gate.at_commit.is_set)
    writes[1].cancel()
    gate.go.set()
    assert await asyncio.gather(*writes, return_exceptions=True) != [0, 1, 2]
    assert (writes[0].result(), writes[1].cancelled(), writes[2].result()) == (0, True, 2)


def test_several_event_loops_share_one_engine(path):
    db = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    found: list[list[int]] = []

    async def work(offset: int) -> None:
        found.append(await asyncio.gather(*(db.write(Call("add", add(offset + n))) for n in range(50))))

    threads = [threading.Thread(target=asyncio.run, args=(work(n * 100),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def end() -> int:
        total = await db.read(Call("count", count))
        await db.close()
        return total

    assert asyncio.run(end()) == 200
    assert sorted(sum(found, [])) == sorted(n * 100 + m for n in range(4) for m in range(50))  # noqa: RUF017


async def test_a_loop_that_closed_meanwhile_does_not_stop_the_writer(db, monkeypatch):
    gate = CommitGate(monkeypatch)

    async def ask_and_leave() -> None:
        asking = asyncio.ensure_future(db.write(Call("add", add(1))))
        await until(gate.at_commit.is_set)
        asking.cancel()

    thread = threading.Thread(target=asyncio.run, args=(ask_and_leave(),))
    thread.start()
    thread.join()
    gate.go.set()
    assert await db.write(Call("add", add(2))) == 2
    assert await db.read(Call("count", count)) == 2


async def test_closing_serves_what_was_asked_and_refuses_what_comes_later(path):
    db = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    writes = [asyncio.ensure_future(db.write(Call("add", add(n)))) for n in range(100)]
    await asyncio.sleep(0)
    await db.close()
    assert await asyncio.gather(*writes) == list(range(100))
    for ask in (db.write, db.read):
        with pytest.raises(StoreUnavailable, match="closed"):
            await ask(Call("count", count))
    assert not path.with_name("holdfast.db-wal").exists()
    await db.close()


# --- the files under a running engine ------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows does not let go of an open file")
@pytest.mark.parametrize("name", ["holdfast.db", "holdfast.db-wal"])
async def test_a_file_that_was_taken_away_breaks_the_engine(path, name):
    told: list[StoreBroken] = []
    db = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA, on_broken=told.append)
    await db.write(Call("add", add(1)))
    (path.parent / name).rename(path.parent / "elsewhere")
    for n in (2, 3):
        with pytest.raises(StoreBroken):
            await db.write(Call("add", add(n)))
    assert len(told) == 1
    await db.close()


async def test_a_log_left_behind_is_written_again_only_by_the_first_to_open_it(path, monkeypatch):
    rewritten: list[str] = []
    rewrite = opening._rewrite

    def watched(db: apsw.Connection) -> None:
        rewritten.append(db.filename)
        rewrite(db)

    monkeypatch.setattr(opening, "_rewrite", watched)
    left = InlineDatabase(path, Clock(), migrations=SCHEMA)
    await left.write(Call("add", add(1)))
    left.crash()
    first = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    assert len(rewritten) == 1
    await first.write(Call("add", add(2)))
    second = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    assert len(rewritten) == 1
    assert await second.read(Call("count", count)) == 2
    await first.close()
    await second.close()


async def test_a_log_above_its_limit_is_truncated(path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.checkpointer.WAL_BYTES_MAX", 100_000)
    monkeypatch.setattr("holdfast.store.sqlite.checkpointer.CHECKPOINT_AFTER_S", 0.0)
    db = ThreadedDatabase.open(path, Clock(), migrations=SCHEMA)
    n = 0
    while n < 5 or db.wal_bytes() > 100_000:
        await db.write(Call("add", add(n, "x" * 50_000)))
        n += 1
    assert db.wal_bytes() < WAL_BYTES_MAX
    assert await db.read(Call("count", count)) == n
    await db.close()


async def test_the_writes_of_another_process_are_noticed_and_our_own_are_not(db, path):
    await db.changed()
    await db.write(Call("add", add(1)))
    assert await db.changed() is False
    other = open_connection(path)
    other.execute("insert into thing values (2, 'other', 0)")
    assert await db.changed() is True
    assert await db.changed() is False
    other.close()


async def test_the_writer_waits_for_another_process_that_holds_the_lock(db, path, monkeypatch):
    polled: list[int] = []
    poll = db._writer._poll

    def watched_poll(polls: int) -> bool:
        polled.append(polls)
        return bool(poll(polls))

    db._writer._db.set_busy_handler(watched_poll)
    other = open_connection(path)
    other.execute("begin immediate")
    write = asyncio.ensure_future(db.write(Call("add", add(1))))
    await until(lambda: bool(polled))
    other.execute("commit")
    assert await write == 1
    other.close()


async def test_a_lock_held_too_long_fails_the_call_and_not_the_engine(db, path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.writer.WRITE_LOCK_POLLS_MAX", 3)
    other = open_connection(path)
    other.execute("begin immediate")
    with pytest.raises(StoreUnavailable):
        await db.write(Call("add", add(1)))
    other.execute("commit")
    assert await db.write(Call("add", add(1))) == 1
    other.close()


HOLD = """
import sys
from pathlib import Path
from holdfast.store.sqlite import OwnerLock
lock = OwnerLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_owner_is_told_who_the_first_is_and_death_frees_the_lock(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        with pytest.raises(StoreOwned, match=f"process {holder.pid}"):
            OwnerLock(tmp_path).acquire()
        holder.kill()
        holder.wait()
    mine = OwnerLock(tmp_path)
    mine.acquire()
    with pytest.raises(StoreOwned, match=f"process {os.getpid()}"):
        OwnerLock(tmp_path).acquire()
    mine.release()
    mine.release()
    other = OwnerLock(tmp_path)
    other.acquire()
    other.release()


# --- without threads -----------------------------------------------------------------------------


class Death(BaseException):
    pass


async def test_calls_of_one_tick_share_a_commit(path):
    seen: list[str] = []
    db = InlineDatabase(path, Clock(), migrations=SCHEMA, before_statement=lambda verb, sql: seen.append(sql))
    await asyncio.gather(*(db.write(Call("add", add(n))) for n in range(3)), db.read(Call("count", count)))
    assert [sql for sql in seen if sql.startswith("commit")] == ["commit", "committed"]
    assert await db.read(Call("count", count)) == 3
    await db.close()


@pytest.mark.parametrize(("at", "kept"), [("insert", 0), ("commit", 0), ("committed", 2)])
async def test_a_crash_at_a_statement_keeps_committed_rows_and_answers_no_caller(path, at, kept):
    deaths: list[BaseException] = []

    def probe(verb: str, sql: str) -> None:
        if sql.startswith(at + " ") or sql == at:
            raise Death

    db = InlineDatabase(path, Clock(), migrations=SCHEMA, before_statement=probe, on_crash=deaths.append)
    writes = [asyncio.ensure_future(db.write(Call("add", add(n)))) for n in range(2)]
    await until(lambda: bool(deaths))
    assert [write.done() for write in writes] == [False, False]
    assert [type(death) for death in deaths] == [Death]
    for write in writes:
        write.cancel()
    again = InlineDatabase(path, Clock(), migrations=SCHEMA)
    assert await again.read(Call("count", count)) == kept
    await again.close()


async def test_two_engines_on_one_file_see_each_other(path):
    first = InlineDatabase(path, Clock(), migrations=SCHEMA, synchronous="off")
    second = InlineDatabase(path, Clock(), migrations=SCHEMA, synchronous="off")
    await second.changed()
    await first.write(Call("add", add(1)))
    assert await second.changed() is True
    assert await second.read(Call("first", lambda: one("select word from thing"))) == ("word",)
    with pytest.raises(InvariantBroken, match="tried to write"):
        await second.read(Call("add", add(2)))
    await second.write(Call("add", add(2)))
    await first.close()
    await second.close()
