"""The promise: the status names everything that needs a person, the most urgent first, and nothing else.

Rules: R8, R40.
"""

from holdfast.kernel.ids import NodeId
from holdfast.memory.delivery import DeliveryState
from holdfast.monitor.status import NeedKind, Urgency, headline
from holdfast.monitor.status_sql import read_status
from holdfast.outbox.post import ReplyState
from holdfast.store.node_sql import register_node, retire_node
from holdfast.store.upkeep_sql import prove_write
from tests.monitor.stories import Story, retain, waiting_for_approval


async def status(driver):
    return await driver.db.read(read_status())


async def needs(driver):
    return [(need.urgency, need.kind) for need in (await status(driver)).needs]


async def test_a_store_where_all_is_well_needs_nothing(driver):
    await driver.talk("hello")
    await driver.db.write(prove_write())
    found = await status(driver)
    assert found.needs == []
    assert str(headline(found)) == "Nothing needs you"
    assert found.proved_at == driver.clock.now()
    assert [(node.id, node.host) for node in found.nodes] == [(driver.node, "here")]


async def test_an_open_question_comes_first_and_says_when_it_ends(driver):
    await waiting_for_approval(Story(driver))
    (need,) = (await status(driver)).needs
    assert (need.urgency, need.kind, need.subject) == (Urgency.HOLDS_UP, NeedKind.APPROVAL, "K7M2QX")
    assert need.what == "fern wants to run lookup_order"
    assert need.until == need.since + 300_000
    assert need.command == "holdfast approvals show K7M2QX"
    assert str(headline(await status(driver))) == "1 needs you"


async def test_mail_without_a_process_is_stuck(driver):
    await driver.say("hello")
    await driver.db.write(retire_node(driver.node))
    (need,) = (await status(driver)).needs
    assert (need.urgency, need.kind) == (Urgency.STUCK, NeedKind.NOT_SERVING)
    assert need.what == "No process serves this store, and 1 message waits"
    assert headline(await status(driver)).first == ("1 stuck", "1 message waits")


async def test_mail_that_no_process_takes_is_stuck_after_a_while(driver):
    await driver.say("hello")
    assert await needs(driver) == []
    driver.clock.advance(31_000)
    assert await needs(driver) == [(Urgency.STUCK, NeedKind.MAIL)]


async def test_a_turn_whose_process_is_gone_mends_itself_while_another_serves(driver):
    await driver.say("hello")
    claim = await driver.claim()
    await driver.open(claim)
    assert await needs(driver) == []
    (running,) = (await status(driver)).running
    assert (running.agent, running.n, running.chat, running.is_claimed) == ("fern", 1, "home", True)
    await driver.db.write(register_node(NodeId("node_b"), "there", sole=False))
    await driver.db.write(retire_node(driver.node))
    assert await needs(driver) == [(Urgency.MENDS, NeedKind.TURN)]


async def told(driver, *providers, channel="telegram"):
    story = Story(driver)
    driver.policies = retain(*providers)
    await story.says(channel=channel)
    claim, turn = await story.begins()
    await story.answers(claim, turn)
    return story


async def test_replies_and_deliveries_that_wait_for_a_decision_stand_in_the_second_line(driver):
    story = await told(driver, "honcho", "local")
    await story.sends(ReplyState.UNCERTAIN, reason="no answer", doubts=2)
    await story.delivers("honcho", DeliveryState.PARKED, reason="refused")
    await story.delivers("local", DeliveryState.DELIVERED)
    found = await status(driver)
    assert [(need.urgency, need.kind) for need in found.needs] == [
        (Urgency.DECIDE, NeedKind.REPLY),
        (Urgency.DECIDE, NeedKind.DELIVERY),
    ]
    assert [need.what for need in found.needs] == [
        "1 reply of fern over telegram: may be posted once, twice or not at all",
        "1 delivery of fern to honcho: parked until replayed",
    ]
    assert headline(found).first == ("Nothing needs you",)
    assert headline(found).second == ("1 reply to decide", "1 delivery to decide")


async def test_a_provider_that_is_away_mends_itself_and_what_it_alone_refuses_is_stuck(driver):
    story = await told(driver, "honcho", channel="http")
    await story.delivers("honcho", DeliveryState.SCHEDULED, failing=True, reason="connection refused")
    found = await status(driver)
    (need,) = found.needs
    assert (need.urgency, need.evidence) == (Urgency.MENDS, "connection refused")
    assert headline(found).first == ("1 delivery waits, oldest 90 ms",)
    for n in range(2):  # other chats are delivered between the failures
        await driver.talk("hello", chat=f"other{n}")
        await story.delivers_other("honcho", DeliveryState.DELIVERED)
        await story.delivers("honcho", DeliveryState.SCHEDULED, suspect=True, failing=True, reason="500")
    await driver.talk("hello", chat="another")
    await story.delivers_other("honcho", DeliveryState.DELIVERED)
    await story.delivers("honcho", DeliveryState.SCHEDULED, suspect=True, failing=True, reason="500")
    (need,) = (await status(driver)).needs
    assert (need.urgency, need.kind, need.evidence.split(";")[0]) == (Urgency.STUCK, NeedKind.LANE, "500")
    assert need.what == "honcho fails on one delivery of fern (4 attempts) and takes others"


async def test_waiting_messages_are_counted_with_their_age(driver):
    await driver.say("one")
    driver.clock.advance(5_000)
    await driver.say("two", chat="den", agent="moss")
    found = await status(driver)
    assert {agent: queue.count("waiting") for agent, queue in found.queues.messages.items()} == {"fern": 1, "moss": 1}
    assert found.queues.age_ms(found.queues.messages["fern"]) == 5_000
    assert headline(found).first == ("2 messages wait",)


async def test_a_process_that_was_lost_is_named_for_an_hour(driver):
    await driver.db.write(register_node(NodeId("node_b"), "there", sole=True))
    (lost,) = (await status(driver)).lost
    assert (lost.id, lost.host, lost.ending) == (driver.node, "here", "lost")
    driver.clock.advance(3_600_001)
    assert (await status(driver)).lost == []
