"""The promise: the queues say what waits for each agent, provider and channel, in which state, and since when; in one
statement, however much waits.

Rules: R8.
"""

from holdfast.kernel.ids import Instant, NodeId
from holdfast.memory.delivery import DeliveryState
from holdfast.monitor.queues import AgentOnChannel
from holdfast.monitor.queues_sql import read_queues
from holdfast.monitor.sample import HOUR_MS, MINUTE_MS, Sample, SampleSpan
from holdfast.monitor.sample_sql import count_sample_holes, record_sample
from holdfast.outbox.post import ReplyState
from tests.monitor.stories import Story, retain
from tests.support.counting import CountingDatabase


async def test_messages_wait_until_they_are_answered(driver):
    before = await driver.db.read(read_queues())
    assert (before.messages, before.deliveries, before.replies) == ({}, {}, {})
    await driver.say("one")
    since = driver.clock.now()
    driver.clock.advance(500)
    await driver.say("two")
    waiting = await driver.db.read(read_queues())
    assert waiting.at == driver.clock.now()
    assert (waiting.messages["fern"].states, waiting.messages["fern"].oldest_at) == ({"waiting": 2}, since)
    claim = await driver.claim()
    turn = await driver.open(claim)
    assert (await driver.db.read(read_queues())).messages["fern"].states == {"waiting": 1, "in_turn": 1}
    await driver.answer(claim, turn)
    answered = (await driver.db.read(read_queues())).messages["fern"]
    assert (answered.states, answered.oldest_at) == ({"waiting": 1}, since + 500)


async def test_what_is_decided_has_no_age(driver):
    story = Story(driver)
    driver.policies = retain("honcho")
    await story.says(channel="telegram")
    claim, turn = await story.begins()
    await story.answers(claim, turn)
    committed = await driver.db.read(read_queues())
    ((key, lane),) = committed.deliveries.items()
    assert (key.agent, key.provider, lane.states, lane.oldest_at) == ("fern", "honcho", {"scheduled": 1}, committed.at)
    reply = committed.replies[AgentOnChannel("fern", "telegram")]
    assert (reply.states, reply.oldest_at) == ({"pending": 1}, committed.at)
    await story.sends(ReplyState.UNCERTAIN, doubts=1, reason="nobody knows")
    await story.delivers("honcho", DeliveryState.PARKED, reason="refused")
    decided = await driver.db.read(read_queues())
    assert [(queue.states, queue.oldest_at) for queue in decided.deliveries.values()] == [({"parked": 1}, None)]
    assert [(queue.states, queue.oldest_at) for queue in decided.replies.values()] == [({"uncertain": 1}, None)]


async def test_one_statement_answers(driver):
    await driver.say("one")
    counting = CountingDatabase(driver.db)
    await counting.read(read_queues())
    assert counting.counted.statement_count == 1


async def test_minutes_without_a_sample_are_counted_as_holes(driver):
    minute = SampleSpan.MINUTE.start_of(driver.clock.now())
    assert await driver.db.read(count_sample_holes()) == 60
    # The minute that runs and the one before it, which is stored about now, are not counted.
    for ago, node in ((0, "a"), (1, "a"), (2, "a"), (2, "b"), (3, "a"), (61, "a"), (62, "a")):
        made = Sample(span=SampleSpan.MINUTE, at=Instant(minute - ago * MINUTE_MS), counts={"accepted/fern": 1})
        await driver.db.write(record_sample(NodeId(node), made))
    assert await driver.db.read(count_sample_holes()) == 57
    driver.clock.advance(HOUR_MS)
    assert await driver.db.read(count_sample_holes()) == 58
