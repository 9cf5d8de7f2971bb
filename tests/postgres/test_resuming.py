"""No worker resumes a session that is being forgotten, in either order of the two."""

import pytest

from holdfast.kernel.ids import ForgetId
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import forget
from holdfast.sessions.command_sql import run_command
from holdfast.store.sql_store import SqlStore
from holdfast.testing import ManualClock
from tests.postgres.test_attachments import db, done_or_waiting, uncommitted, watch
from tests.support.driver import Driver

__all__ = ["db", "watch"]


@pytest.fixture
async def driver(db):
    made = Driver(await SqlStore.open(db, b"a secret of the tests"), db, ManualClock())
    await made.store.register_node(made.node, "here", sole=False)
    return made


async def test_a_session_that_is_forgotten_while_it_is_resumed_does_not_go_on(driver, watch):
    old = await driver.chat("hello")
    await driver.command("/new")
    here = await driver.chat("hi")
    message = await driver.say(f"/resume {old}")
    claim = await driver.claim()
    resuming = driver.command_run(message, f"/resume {old}")
    request = ForgetRequest(id=ForgetId("f1"), session=old)
    async with uncommitted(driver.database, watch, lambda: forget(request)):
        done = await done_or_waiting(driver.database, watch, lambda: run_command(claim, resuming))
    await done
    assert await driver.rows("select session_id from mailbox") == [(here,)]
