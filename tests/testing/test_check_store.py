"""The promise: `check_store` passes every engine of ours, and names the promise that a broken store breaks.

Rules: R42.
"""

from contextlib import asynccontextmanager

import pytest

from holdfast.inbox.accept_sql import accept_message
from holdfast.store.script import Call
from holdfast.testing import ManualClock
from holdfast.testing.check_store import CHECKS, check_store
from holdfast.testing.inline_database import InlineDatabase
from tests.support.engines import ENGINES, open_engine

SECRET = b"a secret of the tests"


@pytest.mark.parametrize("engine", ENGINES)
async def test_our_stores_conform(engine, request, tmp_path):
    server = request.getfixturevalue("postgres_server") if engine == "postgres" else None

    @asynccontextmanager
    async def open_store():
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        async with open_engine(engine, folder, ManualClock(), server) as database:
            yield database

    assert await check_store(open_store) == len(CHECKS)


async def test_a_store_that_forgets_what_it_accepted_is_named(tmp_path):
    class Forgetful(InlineDatabase):
        async def write(self, call):
            outcome = await super().write(call)
            if call.verb == accept_message.name:
                await super().write(Call("forget", forget))
            return outcome

    def forget():
        from holdfast.store.script import run

        yield from run("delete from inbound")
        yield from run("update mailbox set depth = 0, ready_at = null")

    @asynccontextmanager
    async def open_store():
        database = Forgetful(tmp_path / "store.db", ManualClock())
        yield database
        await database.close()

    with pytest.raises(AssertionError, match="not so: an event is accepted once"):
        await check_store(open_store)
