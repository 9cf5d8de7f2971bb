"""Health says that the store is damaged, although writes go on beside the damaged pages, and says so until restart.

Rules: control 19.
"""

import asyncio
from typing import Any, cast

import apsw
import pytest

from holdfast.kernel.errors import StoreCorrupt
from holdfast.runtime.app import open_runtime
from holdfast.store.damage import EVERY_MS, CheckedEngine, PageCheck
from holdfast.store.script import Call, rows
from holdfast.store.sqlite.writer import ThreadedDatabase
from holdfast.testing.clock import ManualClock
from tests.support.live import until
from tests.support.ports import make_ports
from tests.support.processes import Up

FILE = "holdfast.db"
pytestmark = pytest.mark.asyncio


def pages_of(file, table):
    """The leaves of a table, as SQLite counts pages, and the size of a page."""
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
        size = db.execute("pragma page_size").fetchall()[0][0]
        found = db.execute("select pageno from dbstat where name = ? and pagetype = 'leaf'", (table,)).fetchall()
        return [row[0] for row in found], size
    finally:
        db.close()


def damage(file, table):
    pages, size = pages_of(file, table)
    assert pages
    with file.open("r+b") as opened:
        for page in pages:
            opened.seek((page - 1) * size)
            opened.write(b"\xde\xad" * (size // 2))


async def filled(data):
    async with await open_runtime(data) as runtime:
        for n in range(8):
            await runtime.ask("hello", f"message {n} " + "x" * 2_000)


async def test_health_is_not_ok_beside_corrupt_pages_of_a_running_gateway(tmp_path):
    """Finding 14: `/healthz` is ok beside corrupt pages."""
    await filled(tmp_path / "data")
    damage(tmp_path / "data" / FILE, "entry")
    up = await Up.start(tmp_path / "data")
    try:
        async with up.client() as client:
            for path in ("/healthz", "/readyz", "/healthz"):
                found = await client.get(path)
                assert (found.status_code, found.json()["ok"], found.json()["code"]) == (503, False, "store_corrupt")
            assert "damaged" in (await client.get("/readyz")).json()["message"]
            assert "holdfast_up 0.0" in (await client.get("/metrics")).text
    finally:
        await up.stop()


async def test_a_whole_store_is_well(tmp_path):
    await filled(tmp_path / "data")
    async with await open_runtime(tmp_path / "data") as runtime:
        assert (await runtime.health()).ok
        assert isinstance(runtime.db, CheckedEngine)
        assert "entry" in await runtime.db.tables()


async def test_pages_that_no_verb_has_read_are_found_damaged(tmp_path):
    await filled(tmp_path / "data")
    damage(tmp_path / "data" / FILE, "entry")
    db = ThreadedDatabase.open(tmp_path / "data" / FILE, ManualClock())
    try:
        await db.check_table("inbound")
        assert db.damage is None
        with pytest.raises(StoreCorrupt):
            await db.check_table("entry")
        assert db.damage is not None
    finally:
        await db.close()


@pytest.mark.parametrize("verb", ["read", "write"])
async def test_damage_that_any_verb_meets_stands_until_the_end(tmp_path, verb):
    await filled(tmp_path / "data")
    damage(tmp_path / "data" / FILE, "entry")
    db = ThreadedDatabase.open(tmp_path / "data" / FILE, ManualClock())
    try:
        with pytest.raises(StoreCorrupt):
            await getattr(db, verb)(Call("look", lambda: rows("select * from entry")))
        assert await db.read(Call("look", lambda: rows("select 1"))) == [(1,)]
        assert isinstance(db.damage, StoreCorrupt)
    finally:
        await db.close()


class Engine(CheckedEngine):
    """An engine that finds a damaged page in the second table."""

    def __init__(self):
        self.looked = []

    async def tables(self):
        return ("a", "b")

    async def check_table(self, table):
        self.looked.append(table)
        if table == "b":
            raise StoreCorrupt("page 7 is never used")


async def test_pages_that_no_verb_reads_are_looked_at_table_by_table_once_an_hour():
    engine, clock = Engine(), ManualClock()
    looked = engine.looked
    looking = PageCheck(make_ports(cast("Any", engine), clock=clock))
    assert "page 7" in str(await looking.damage())
    assert looked == ["a", "b"]
    clock.advance(EVERY_MS - 1)
    await looking.damage()
    await until(looking._ended.is_set)
    assert looked == ["a", "b"]
    clock.advance(1)
    await looking.damage()
    await until(looking._ended.is_set)
    assert looked == ["a", "b", "a", "b"]


async def test_only_the_check_that_starts_a_round_waits_for_it():
    gate = asyncio.Event()

    class Slow(Engine):
        async def check_table(self, table):
            await gate.wait()
            await super().check_table(table)

    looking = PageCheck(make_ports(cast("Any", Slow()), clock=ManualClock()))
    first = asyncio.create_task(looking.damage())
    await until(lambda: looking._began_at is not None)
    assert await looking.damage() is None
    assert not first.done()
    gate.set()
    assert "page 7" in str(await first)
