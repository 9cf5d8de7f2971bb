"""The promise: each agent has one row with what waits for it, and what a reader may not see is not in the status.

Rules: R8, R40.
"""

from dataclasses import replace

from holdfast.kernel.ids import Instant
from holdfast.memory.delivery import DeliveryState
from holdfast.monitor.agent_row import agent_rows
from holdfast.monitor.node_run_sql import list_node_runs
from holdfast.monitor.sample import SampleSpan
from holdfast.monitor.sample_sql import list_samples
from holdfast.monitor.status import Urgency
from holdfast.monitor.status_sql import read_status
from holdfast.monitor.status_view import of_agents, without_people
from holdfast.outbox.post import ReplyState
from tests.monitor.stories import Story, retain, waiting_for_approval
from tests.support.counting import CountingDatabase


async def rows(driver, *agents):
    return {row.agent: row for row in agent_rows(await driver.db.read(read_status()), agents)}


async def test_an_agent_without_anything_has_a_row_too(driver):
    (row,) = (await rows(driver, "moss")).values()
    assert (row.agent, row.waiting, row.message_age_ms, row.needs, row.urgency) == ("moss", 0, 0, 0, None)


async def test_what_waits_is_counted_for_the_agent_that_it_waits_for(driver):
    await driver.say("one")
    await driver.say("two")
    driver.clock.advance(4_000)
    await driver.say("three", agent="moss")
    found = await rows(driver)
    assert (found["fern"].waiting, found["fern"].message_age_ms) == (2, 4_000)
    assert (found["moss"].waiting, found["moss"].message_age_ms) == (1, 0)


async def test_deliveries_and_replies_are_counted_by_what_became_of_them(driver):
    story = Story(driver)
    driver.policies = retain("honcho", "local", "files")
    await story.says(channel="telegram")
    claim, turn = await story.begins()
    await story.answers(claim, turn)
    await story.sends(ReplyState.UNCERTAIN, doubts=1, reason="nobody knows")
    await story.delivers("honcho", DeliveryState.PARKED, reason="refused")
    await story.delivers("files", DeliveryState.UNCERTAIN, reason="cut off")
    row = (await rows(driver))["fern"]
    assert (row.undelivered, row.parked, row.uncertain) == (2, 1, 2)
    assert row.delivery_age_ms > 0
    assert row.urgency is Urgency.DECIDE


async def test_a_reader_of_some_agents_is_shown_nothing_of_others(driver):
    await waiting_for_approval(Story(driver))
    await driver.say("hello", agent="moss", chat="den")
    status = await driver.db.read(read_status())
    seen = of_agents(status, lambda agent: agent == "moss")
    assert (list(seen.queues.messages), seen.needs, seen.running, seen.nodes) == (["moss"], [], [], ())
    assert "fern" not in repr(seen)


async def test_a_reader_of_numbers_is_shown_no_people(driver):
    await waiting_for_approval(Story(driver))
    status = await driver.db.read(read_status())
    turn, need = status.running[0], status.needs[0]
    shown = repr(without_people(status))
    for word in (turn.session, turn.message, need.subject, need.evidence):
        assert word
        assert word not in shown
    assert without_people(status).needs[0] == replace(need, what="", evidence="", subject="", command="")


async def test_more_conversations_need_no_more_statements(driver):
    calls = (read_status, list_node_runs, lambda: list_samples(SampleSpan.MINUTE, Instant(0)))
    counts = []
    for more in range(2):
        for n in range(8 * more):
            await driver.say("hello", chat=f"{n}")
        counting = CountingDatabase(driver.db)
        for call in calls:
            await counting.read(call())
        counts.append(counting.counted.statement_count)
    assert counts[0] == counts[1]
