"""No worker resumes a session that is being forgotten, in either order of the two."""

import pytest

from holdfast.kernel.ids import ForgetId
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.sessions.command_sql import run_command
from holdfast.store.node_sql import register_node
from holdfast.testing import ManualClock
from tests.postgres.test_attachments import db, done_or_waiting, uncommitted, watch
from tests.support.driver import Driver

__all__ = ["db", "watch"]


@pytest.fixture
async def driver(db):
    made = Driver(db, ManualClock())
    await made.db.write(register_node(made.node, "here", sole=False))
    return made


async def test_a_session_that_is_forgotten_while_it_is_resumed_does_not_go_on(driver, watch):
    old = await driver.chat("hello")
    await driver.command("/new")
    here = await driver.chat("hi")
    message = await driver.say(f"/resume {old}")
    claim = await driver.claim()
    resuming = driver.command_run(message, f"/resume {old}")
    request = ForgetRequest(id=ForgetId("f1"), session=old)
    async with uncommitted(driver.db, watch, lambda: begin_forgetting(request)):
        done = await done_or_waiting(driver.db, watch, lambda: run_command(claim, resuming))
    await done
    assert await driver.rows("select session_id from mailbox") == [(here,)]
