"""The promise: what is checked under a row lock is what is true when the lock is given, not when it was asked for.

A rival transaction holds the row; the verb is seen to wait for it; then the rival commits. SQLite has one writer, so
these interleavings exist on PostgreSQL only.
"""

import asyncio
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.kernel.errors import ClaimLost, SessionLive
from holdfast.kernel.ids import AgentName
from holdfast.sessions.command_sql import run_command
from holdfast.turns.agent_pause_sql import pause_agent
from holdfast.turns.context_sql import read_context
from holdfast.turns.record_sql import record_turn
from tests.store.test_node_sql import EVERYTHING
from tests.support.driver import record, retain
from tests.support.engines import SCHEMA, open_engine

WAITING = "select count(*) from pg_locks where not granted"
POLLS_MAX = 2_000


@pytest.fixture
async def database(postgres_server, tmp_path, clock):
    async with open_engine("postgres", tmp_path, clock, postgres_server) as opened:
        yield opened


@pytest.fixture
async def rival(postgres_server, driver):
    connection = await asyncpg.connect(postgres_server.dsn, server_settings={"search_path": SCHEMA})
    yield connection
    await connection.close()


@asynccontextmanager
async def behind(rival, *statements):
    """Runs the statements, lets the body start a verb, waits until it waits for us, and commits."""
    transaction = rival.transaction()
    await transaction.start()
    for statement in statements:
        await rival.execute(*statement if isinstance(statement, tuple) else (statement,))
    yield
    for _ in range(POLLS_MAX):
        if await rival.fetchval(WAITING):
            break
    else:
        pytest.fail("the verb does not wait for the row")
    await transaction.commit()


def start(verb):
    return asyncio.ensure_future(verb)


async def test_a_commit_that_waited_for_a_younger_claim_is_void(driver, rival):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    async with behind(rival, "update mailbox set fence = fence + 1"):
        committing = start(driver.answer(claim, turn))
    with pytest.raises(ClaimLost):
        await committing
    assert (await driver.db.read(read_context(turn.session))).committed_seq == 0


async def test_a_resume_that_waited_for_the_other_place_to_be_claimed_is_refused(driver, rival):
    session = await driver.chat("one", chat="phone")
    message = await driver.say(f"/resume {session}")
    claim = await driver.claim()
    run = driver.command_run(message, f"/resume {session}")
    async with behind(rival, ("update mailbox set owner = 'node_a', fence = fence + 1 where session_id = $1", session)):
        resuming = start(driver.db.write(run_command(claim, run)))
    assert not (await resuming).switched
    assert len(await driver.rows("select 1 from mailbox where session_id = :s", s=session)) == 1


async def test_a_recorder_that_waited_for_the_session_to_go_live_is_refused(driver, rival):
    await driver.chat("one")
    done = await driver.db.write(record_turn(record("k1")))
    before = await driver.rows(EVERYTHING)
    async with behind(
        rival,
        ("update session set epoch = epoch where id = $1", done.session),
        ("update mailbox set session_id = $1", done.session),
    ):
        recording = start(driver.db.write(record_turn(record("k2"))))
    with pytest.raises(SessionLive):
        await recording
    await rival.execute("update mailbox set session_id = (select id from session where mailbox is not null)")
    assert await driver.rows(EVERYTHING) == before


async def test_an_undo_that_waited_for_a_delivery_retracts_what_was_sent_meanwhile(driver, rival):
    driver.policies = (retain(),)
    await driver.chat("one")
    taken = ("update lane set fence = fence + 1", "update delivery set attempt = 1, state = 'sending'")
    async with behind(rival, *taken):
        undoing = start(driver.command("/undo"))
    await undoing
    found = await driver.rows("select op, state from delivery order by op")
    assert found == [("retain", "sending"), ("retract:1", "scheduled")]


async def test_a_claim_passes_over_a_mailbox_that_is_being_changed(driver, rival):
    await driver.say("one", chat="a")
    driver.clock.advance(1)
    await driver.say("one", chat="b")
    async with rival.transaction():
        await rival.execute("update mailbox set fence = fence where address like '%:a'")
        await driver.claim("b")
    await driver.claim("a")


async def test_an_accept_that_waited_for_a_commit_leaves_the_mailbox_ready(driver, rival):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    async with behind(rival, "update mailbox set unattended = unattended"):
        verbs = start(asyncio.gather(driver.answer(claim, turn), driver.say("two")))
    await verbs
    assert await driver.rows("select depth, ready_at is null from mailbox") == [(1, False)]


async def test_a_pause_that_waited_for_a_turn_to_begin_leaves_that_turn_to_its_end(driver, rival):
    session = await driver.chat("one")
    begins = ("update mailbox set unattended = unattended", ("update session set open_turn = 2 where id = $1", session))
    async with behind(rival, *begins):
        pausing = start(driver.db.write(pause_agent(AgentName("fern"))))
    assert (await pausing).open_turns == 1
    assert await driver.rows("select paused from mailbox") == [(2,)]
    await rival.execute("update session set open_turn = null")
