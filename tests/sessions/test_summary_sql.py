"""The promise: a summary stands beside the journal of its own session, is added by compare-and-set, or not at all.

Rules: D14, R25.
"""

from dataclasses import replace

import pytest

from holdfast.kernel.errors import SessionNotFound, SummaryStale
from holdfast.kernel.ids import NodeId, OperationId
from holdfast.sessions.compression import COMPRESS, Busy
from holdfast.sessions.history_sql import list_entries, list_operations, list_summaries, read_session
from holdfast.sessions.summary_sql import begin_operation, commit_summary, end_operation, find_open_operation
from holdfast.store.node_sql import reap_nodes, register_node, renew_node
from holdfast.turns.context_sql import read_context
from holdfast.turns.turn_sql import append_step
from tests.support.driver import tool_step

OTHER = NodeId("node_b")
KEPT = "select session, n, base_n, covers_from, covers_through from summary order by session, n"


async def test_a_context_is_the_newest_summary_and_everything_after_it(driver):
    session = await driver.chat("one", "two")
    made = await driver.summarise(session, through=2, text="they said one")
    context = await driver.db.read(read_context(session))
    assert (context.summary, context.session) == (made, session)
    assert await driver.texts(session) == ["two", "re: two"]


async def test_one_operation_of_a_kind_runs_per_session(driver):
    session, other = await driver.chat("one"), await driver.chat("one", chat="work")
    running = await driver.begin(session)
    assert await driver.db.write(begin_operation(OperationId("op_x"), COMPRESS, session, driver.node)) == Busy(
        running.id
    )
    assert await driver.db.read(find_open_operation(session, COMPRESS)) == running.id
    await driver.begin(other)
    await driver.db.write(begin_operation(OperationId("op_y"), "review", session, driver.node))


async def test_an_operation_begun_again_is_the_same(driver):
    session = await driver.chat("one")
    running = await driver.begin(session)
    assert await driver.db.write(begin_operation(running.id, COMPRESS, session, driver.node)) == running
    await driver.db.write(end_operation(running, "failed", {"reason": "no answer"}))
    ended = await driver.db.write(begin_operation(running.id, COMPRESS, session, driver.node))
    assert (ended.outcome, ended.detail) == ("failed", {"reason": "no answer"})


async def test_the_end_of_its_owner_frees_a_session_for_the_next_operation(driver):
    session = await driver.chat("one")
    orphan = await driver.begin(session)
    draft = await driver.draft(session)
    await driver.db.write(register_node(OTHER, "there", sole=False))
    driver.clock.advance(1_000)
    await driver.db.write(renew_node(OTHER))
    assert (await driver.db.write(reap_nodes(lease_ms=1_000))).operations == 1
    assert await driver.db.read(find_open_operation(session, COMPRESS)) is None
    young = await driver.begin(session, node=OTHER)
    assert young.fence == orphan.fence + 1
    with pytest.raises(SummaryStale):
        await driver.db.write(commit_summary(orphan, draft))
    assert (await driver.db.write(commit_summary(young, draft))).n == 1


async def test_an_operation_without_a_living_owner_is_replaced_even_before_the_reaping(driver):
    session = await driver.chat("one")
    orphan = await driver.begin(session, node=NodeId("node_gone"))
    await driver.begin(session)
    assert {one.id: one.outcome for one in await driver.db.read(list_operations())}[orphan.id] == "abandoned"


async def test_a_summary_committed_again_is_the_same_summary(driver):
    session = await driver.chat("one", "two")
    operation, draft = await driver.begin(session), await driver.draft(session, through=2)
    first = await driver.db.write(commit_summary(operation, draft))
    await driver.talk("three")
    assert await driver.db.write(commit_summary(operation, draft)) == first
    assert len(await driver.rows(KEPT)) == 1


async def stale_by_undo(driver, session):
    await driver.command("/undo")


async def stale_by_another_summary(driver, session):
    await driver.write("update operation set ended_at = 1, outcome = 'abandoned' where session = :s", s=session)
    await driver.summarise(session, through=2)
    await driver.write("update operation set ended_at = null, outcome = null where outcome = 'abandoned'")


async def stale_by_deletion(driver, session):
    await driver.delete()


async def stale_by_end(driver, session):
    await driver.write("update operation set ended_at = 1, outcome = 'abandoned' where session = :s", s=session)


@pytest.mark.parametrize(
    "meanwhile",
    [stale_by_undo, stale_by_another_summary, stale_by_deletion, stale_by_end],
    ids=lambda meanwhile: meanwhile.__name__,
)
async def test_a_stale_summary_changes_nothing(driver, meanwhile):
    session = await driver.chat("one", "two", "three")
    operation, draft = await driver.begin(session), await driver.draft(session, through=4)
    await meanwhile(driver, session)
    before = await driver.rows(KEPT)
    with pytest.raises(SummaryStale):
        await driver.db.write(commit_summary(operation, draft))
    assert await driver.rows(KEPT) == before


async def test_turns_that_go_on_do_not_make_a_summary_stale(driver):
    session = await driver.chat("one", "two")
    operation, draft = await driver.begin(session), await driver.draft(session, through=2)
    await driver.talk("three")
    await driver.db.write(commit_summary(operation, draft))
    assert await driver.texts(session) == ["two", "re: two", "three", "re: three"]


async def test_the_steps_of_an_open_turn_are_never_covered(driver):
    session = await driver.chat("one")
    await driver.say("two")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), tool_step()))
    operation, draft = await driver.begin(session), await driver.draft(session, through=turn.last_seq)
    with pytest.raises(SummaryStale):
        await driver.db.write(commit_summary(operation, draft))


async def test_a_range_that_leaves_a_gap_is_refused(driver):
    session = await driver.chat("one", "two", "three")
    await driver.summarise(session, through=2)
    operation, draft = await driver.begin(session), await driver.draft(session, through=6)
    for covers_from in (2, 4):
        with pytest.raises(SummaryStale):
            await driver.db.write(commit_summary(operation, replace(draft, covers_from=covers_from)))


async def test_a_summary_on_another_base_is_refused_even_when_its_range_fits(driver):
    session = await driver.chat("one", "two", "three")
    await driver.summarise(session, through=2)
    operation, draft = await driver.begin(session), await driver.draft(session, through=4)
    with pytest.raises(SummaryStale):
        await driver.db.write(commit_summary(operation, replace(draft, base_n=0)))


async def test_an_undo_that_a_summary_knew_of_does_not_void_it(driver):
    session = await driver.chat("one", "two")
    await driver.command("/undo")
    await driver.talk("three")
    made = await driver.summarise(session, through=7, text="one and three")
    assert (await driver.db.read(read_context(session))).summary == made


async def test_six_compressions_of_a_long_conversation_copy_nothing(driver):
    session, texts = None, []
    for n in range(14):
        texts += [f"message {n}", f"re: message {n}"]
        session = (await driver.talk(f"message {n}")).session
        if n in {3, 5, 7, 9, 11, 13}:
            await driver.summarise(session, through=2 * n)
    assert session is not None
    found = await driver.db.read(read_session(session))
    assert (found.id, found.committed_seq, found.summaries) == (session, 28, 6)
    assert [view.entry.text for view in await driver.db.read(list_entries(session))] == texts
    ranges = [(one.covers_from, one.covers_through) for one in await driver.db.read(list_summaries(session))]
    assert ranges == [(1, 6), (7, 10), (11, 14), (15, 18), (19, 22), (23, 26)]
    assert await driver.texts(session) == texts[26:]
    assert len(await driver.rows("select id from session")) == 1


async def test_no_operation_begins_for_a_session_that_is_not_there(driver):
    session = await driver.chat("one")
    await driver.delete()
    for gone in (session, "ses_never"):
        with pytest.raises(SessionNotFound):
            await driver.begin(gone)
