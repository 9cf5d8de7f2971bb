"""The cost of a model call is kept once, for its agent and its day, also when the verb is repeated."""

from dataclasses import replace

from holdfast.kernel.ids import AgentName
from holdfast.turns.policy import DAY_MS
from holdfast.turns.spend_sql import Spend, SpendTotal, day_start, record_spend, sum_spend_by_model, sum_spent

FERN, MOSS = AgentName("fern"), AgentName("moss")
ONE = Spend(
    id="spd_1", agent=FERN, task="reply", model="openai:m", tokens_in=1_000, tokens_out=10, cost_micros=2_500_000_000
)


def total(agent, model, task, *, answers, cost):
    return SpendTotal(
        agent=agent,
        model=model,
        task=task,
        answers=answers,
        tokens_in=1_000 * answers,
        tokens_out=10 * answers,
        cost_micros=cost,
    )


async def test_repeating_a_spend_changes_nothing(db, clock):
    for _ in range(3):
        await db.write(record_spend(ONE))
    assert await db.read(sum_spent(FERN, day_start(clock.now()))) == ONE.cost_micros


async def test_sums_are_by_agent_model_and_task(db):
    await db.write(record_spend(ONE))
    await db.write(record_spend(replace(ONE, id="spd_2", cost_micros=1)))
    await db.write(record_spend(replace(ONE, id="spd_3", task="summary", cost_micros=7)))
    await db.write(record_spend(replace(ONE, id="spd_4", agent=MOSS, model="anthropic:\0m", cost_micros=9)))
    assert await db.read(sum_spend_by_model()) == [
        total(FERN, "openai:m", "reply", answers=2, cost=2_500_000_001),
        total(FERN, "openai:m", "summary", answers=1, cost=7),
        total(MOSS, "anthropic:m", "reply", answers=1, cost=9),
    ]
    assert [one.agent for one in await db.read(sum_spend_by_model(agent=MOSS))] == [MOSS]


async def test_a_day_begins_at_midnight_utc(db, clock):
    clock.advance(DAY_MS - clock.now() % DAY_MS - 1)  # the last millisecond of a day
    await db.write(record_spend(ONE))
    clock.advance(1)
    await db.write(record_spend(replace(ONE, id="spd_2", cost_micros=5)))
    assert await db.read(sum_spent(FERN, day_start(clock.now()))) == 5
    assert sum(one.cost_micros for one in await db.read(sum_spend_by_model())) == 5
    assert sum(one.cost_micros for one in await db.read(sum_spend_by_model(days=2))) == ONE.cost_micros + 5


async def test_an_agent_that_was_never_asked_spent_nothing(db, clock):
    assert await db.read(sum_spent(MOSS, day_start(clock.now()))) == 0
    assert await db.read(sum_spend_by_model()) == []
