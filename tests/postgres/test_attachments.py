"""The promise: the bytes of an attachment are there as long as a message brought them, and not longer, also where
messages come and are forgotten at the same time. Schedules are made with locks: nothing here waits for time to pass."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.inbox.attachment_sql import drop_enclosures, enclose, read_attachment
from holdfast.inbox.chat_message import hash_of
from holdfast.inbox.message import Enclosure
from holdfast.kernel.ids import MessageId
from holdfast.store.script import Call, one, run
from tests.support.servers import fresh_schema, postgres_database

GATE = 4712
BODY = b"a picture"
PICTURE = Enclosure(hash=hash_of(BODY), name="a.png", media_type="image/png", body=BODY)
WAITS = "select coalesce(wait_event_type, '') = 'Lock' from pg_stat_activity where pid = $1"


@pytest.fixture
async def db(postgres_server):
    async with fresh_schema(postgres_server) as schema, postgres_database(postgres_server, schema=schema) as database:
        yield database


@pytest.fixture
async def watch(postgres_server):
    connection = await asyncpg.connect(postgres_server.dsn)
    yield connection
    await connection.close()


def come(message):
    return enclose(MessageId(message), (PICTURE,))


def kept(db):
    return db.read(read_attachment(PICTURE.hash))


@asynccontextmanager
async def uncommitted(db, watch, script):
    """What was written is committed when this ends."""
    written = asyncio.Event()

    def held():
        yield from script()
        written.set()
        yield from run("select pg_advisory_xact_lock_shared(:gate)", gate=GATE)

    await watch.execute("select pg_advisory_lock($1)", GATE)
    writing = asyncio.create_task(db.write(Call("first", held)))
    await written.wait()
    try:
        yield
    finally:
        await watch.execute("select pg_advisory_unlock($1)", GATE)
        await writing


async def done_or_waiting(db, watch, script):
    """A task that has come as far as it can."""
    known = asyncio.get_running_loop().create_future()

    def told():
        (pid,) = (yield from one("select pg_backend_pid()")) or (0,)
        known.set_result(pid)
        yield from script()

    task = asyncio.create_task(db.write(Call("second", told)))
    pid = await known
    while not task.done() and not await watch.fetchval(WAITS, pid):
        pass
    return task


async def test_bytes_that_come_again_while_they_are_forgotten_are_kept(db, watch):
    await db.write(Call("come", lambda: come("one")))
    async with uncommitted(db, watch, lambda: come("two")):
        forgetting = await done_or_waiting(db, watch, lambda: drop_enclosures(["one"]))
    await forgetting
    assert await kept(db) == BODY


async def test_bytes_that_are_forgotten_while_they_come_again_are_kept(db, watch):
    await db.write(Call("come", lambda: come("one")))
    async with uncommitted(db, watch, lambda: drop_enclosures(["one"])):
        coming = await done_or_waiting(db, watch, lambda: come("two"))
    await coming
    assert await kept(db) == BODY


async def test_bytes_of_two_messages_that_are_forgotten_at_the_same_time_are_gone(db, watch):
    await db.write(Call("come", lambda: come("one")))
    await db.write(Call("come", lambda: come("two")))
    async with uncommitted(db, watch, lambda: drop_enclosures(["one"])):
        forgetting = await done_or_waiting(db, watch, lambda: drop_enclosures(["two"]))
    await forgetting
    assert await kept(db) is None
