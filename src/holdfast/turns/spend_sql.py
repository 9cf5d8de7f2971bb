"""record_spend, and the totals over its rows: the cost of models."""

from collections.abc import Sequence

from holdfast.kernel.ids import AgentName, Instant
from holdfast.store.script import Script, one, plain, rows, run, verb
from holdfast.turns.policy import DAY_MS
from holdfast.turns.spend import Spend, SpendTotal

NEW_SPEND = """
insert into spend (id, agent, at, task, model, tokens_in, tokens_out, cost_micros)
values (:id, :agent, :now, :task, :model, :tokens_in, :tokens_out, :cost_micros)
on conflict (id) do nothing"""
SPENT = "select coalesce(sum(cost_micros), 0) from spend where agent = :agent and at >= :since"
BY_MODEL = """
select agent, model, task, count(*), sum(tokens_in), sum(tokens_out), sum(cost_micros) from spend
 where at >= :now - :now % 86400000 - :before_ms and (:agent = '' or agent = :agent)
 group by agent, model, task order by agent, model, task"""


@verb
def record_spend(spend: Spend) -> Script[None]:
    yield from run(
        NEW_SPEND,
        id=spend.id,
        agent=spend.agent,
        task=spend.task,
        model=plain(spend.model),
        tokens_in=spend.tokens_in,
        tokens_out=spend.tokens_out,
        cost_micros=spend.cost_micros,
    )


@verb
def sum_spent(agent: AgentName, since: Instant) -> Script[int]:
    row = yield from one(SPENT, agent=agent, since=since)
    return int(row[0]) if row else 0


@verb
def sum_spend_by_model(*, days: int = 1, agent: AgentName | None = None) -> Script[Sequence[SpendTotal]]:
    found = yield from rows(BY_MODEL, before_ms=(days - 1) * DAY_MS, agent=agent or "")
    return [
        SpendTotal(
            agent=AgentName(row[0]),
            model=row[1],
            task=row[2],
            answers=int(row[3]),
            tokens_in=int(row[4]),
            tokens_out=int(row[5]),
            cost_micros=int(row[6]),
        )
        for row in found
    ]
