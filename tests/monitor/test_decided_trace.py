"""The promise: the trace and the status tell what a person decided about a reply or a delivery, with the name, and no
longer ask for a decision."""

from holdfast.audit.action import ActorKind, By
from holdfast.memory.delivery import DeliveryState
from holdfast.monitor.status_sql import read_status
from holdfast.monitor.timeline import timeline
from holdfast.monitor.trace_sql import read_trace
from holdfast.outbox.post import ReplyState
from holdfast.repair.plan import RepairSubject, RepairVerb
from holdfast.repair.repair_sql import repair_batch
from tests.monitor.test_status_sql import told

ADA = By(kind=ActorKind.TOKEN, id="tok_1", label="ada")


async def undecided(driver):
    """A message with an uncertain reply and a delivery in doubt; its trace."""
    story = await told(driver, "honcho")
    await story.sends(ReplyState.UNCERTAIN, reason="no answer", doubts=2)
    await story.delivers("honcho", DeliveryState.UNCERTAIN, reason="no answer", delay_ms=60_000)
    return await trace(driver)


async def trace(driver):
    ((message,),) = await driver.rows("select message from inbound")
    return await driver.db.read(read_trace(message))


async def decide(driver, verb):
    facts = await trace(driver)
    for subject, ident in (
        (RepairSubject.REPLY, facts.replies[-1].id),
        (RepairSubject.DELIVERY, facts.deliveries[-1].view.id),
    ):
        (done,) = await driver.db.write(repair_batch(verb, subject, [ident], by=ADA))
        assert not done.obstacle
    return timeline(await trace(driver))


async def test_what_a_person_saw_arrive_is_told_as_their_word(driver):
    assert timeline(await undecided(driver)).needs_you
    found = await decide(driver, RepairVerb.SETTLE)
    assert found.verdict == ("Answered, and ada said that the reply reached telegram. 1 of 1 memory providers have it.")
    assert not found.needs_you
    assert {"the reply arrived, ada said, over telegram", "honcho: arrived, ada said"} <= {
        step.what for step in found.steps
    }
    assert (await driver.db.read(read_status())).needs == []


async def test_what_a_person_gave_up_is_told_with_the_name(driver):
    await undecided(driver)
    found = await decide(driver, RepairVerb.DROP)
    assert found.verdict == (
        "Answered, and nobody can say whether telegram has the reply once, twice or not at all, and ada gave it up. "
        "0 of 1 memory providers have it: honcho given up by ada."
    )
    assert not found.needs_you
    assert {"the reply is uncertain, given up by ada, over telegram", "honcho: given up by ada"} <= {
        step.what for step in found.steps
    }
    assert (await driver.db.read(read_status())).needs == []
