"""The promise: notes, resting sessions and costs per day are listed as the store has them, page by page.

Rules: R40.
"""

import pytest

from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target, stream_of
from holdfast.memory.notes_sql import apply_memory
from holdfast.monitor.finish_sql import list_resting_sessions
from holdfast.monitor.notes_list_sql import list_newest_changes, list_notes
from holdfast.turns.policy import DAY_MS
from holdfast.turns.spend_sql import Spend, record_spend, sum_spend_by_day

FERN = AgentName("fern")


async def note(driver, subject, text, *, agent=FERN):
    change = NoteChange(verb=MemoryVerb.ADD, target=Target.USER, text=text)
    origin = driver.id("origin")
    batch = MemoryBatch(agent=agent, subject=subject, origin=origin, changes=(change,), principal=Principal("ada"))
    await driver.db.write(apply_memory(batch))


async def test_notes_are_listed_by_agent_and_scope_with_their_newest_change(driver):
    for subject, text in (("ada", "one"), ("ada", "two"), ("", "three"), ("b_b", "four")):
        await note(driver, subject, text)
        driver.clock.advance(10)
    await note(driver, "bob", "five", agent=AgentName("moss"))
    found = await driver.db.read(list_notes())
    assert [(one.agent, one.subject, one.notes, one.head) for one in found] == [
        *(("fern", "", 1, 1), ("fern", "ada", 2, 2), ("fern", "b_b", 1, 1), ("moss", "bob", 1, 1))
    ]
    assert found[0].changed_at == driver.clock.now() - 20
    assert [one.subject for one in await driver.db.read(list_notes(text="b_"))] == ["b_b"]
    assert [one.subject for one in await driver.db.read(list_notes(agent="moss"))] == ["bob"]
    rest = await driver.db.read(list_notes(after=("fern", "ada"), limit=1))
    assert [one.subject for one in rest] == ["b_b"]


async def test_the_newest_changes_come_first(driver):
    for text in ("one", "two", "three"):
        await note(driver, "ada", text)
    found = await driver.db.read(list_newest_changes(stream_of(FERN, "ada"), limit=2))
    assert [one.text for one in found] == ["three", "two"]


async def test_sessions_rest_in_the_order_in_which_they_would_end(driver):
    for chat in ("den", "home"):
        await driver.talk("hello", chat=chat, who=chat)
        driver.clock.advance(1_000)
    await driver.say("wait", chat="den", who="den")
    found = await driver.db.read(list_resting_sessions(FERN))
    assert [(one.principal, one.is_busy) for one in found] == [("den", True), ("home", False)]
    assert await driver.db.read(list_resting_sessions("moss")) == []


@pytest.mark.parametrize(("days", "wanted"), [(1, [("m", 1)]), (2, [("m", 2), ("m", 1)]), (9, [("m", 2), ("m", 1)])])
async def test_costs_are_summed_by_day_agent_and_model(driver, days, wanted):
    db, clock = driver.db, driver.clock
    for n, micros in enumerate((500, 600, 70)):
        spend = Spend(id=f"spd_{n}", agent=FERN, task="reply", model="m", tokens_in=1, tokens_out=1, cost_micros=micros)
        await db.write(record_spend(spend))
        if n == 1:
            clock.advance(DAY_MS)
    found = await db.read(sum_spend_by_day(days=days))
    assert [(one.model, one.answers) for one in found] == wanted
    assert found[-1].day == clock.now() // DAY_MS
    assert found[-1].cost_micros == 70
    assert await db.read(sum_spend_by_day(days=days, agent="moss")) == []
