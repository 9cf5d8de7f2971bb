"""Spend: the cost of models, its totals, and an agent's limit per day. Days are UTC days."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from holdfast.kernel.ids import AgentName, Instant
from holdfast.store.script import Columns, Script, one, plain, run, verb
from holdfast.turns.policy import DAY_MS

MICROS = 1_000_000
NEW_SPEND = """
insert into spend (id, agent, at, task, model, tokens_in, tokens_out, cost_micros)
values (:id, :agent, :now, :task, :model, :tokens_in, :tokens_out, :cost_micros)
on conflict (id) do nothing"""
SPENT = "select coalesce(sum(cost_micros), 0) from spend where agent = :agent and at >= :since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """One billed answer of a model, refusals included."""

    id: str
    agent: AgentName
    task: str
    model: str
    tokens_in: int
    tokens_out: int
    cost_micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendTotal:
    """The spend of one agent on one model for one kind of task."""

    agent: AgentName
    model: str
    task: str
    answers: int
    tokens_in: int
    tokens_out: int
    cost_micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpend:
    """The spend of one agent on one model on one UTC day, for all kinds of tasks."""

    day: int  # counted from 1970-01-01
    agent: AgentName
    model: str
    answers: int
    tokens_in: int
    tokens_out: int
    cost_micros: int


TOTAL = Columns(
    SpendTotal,
    answers="count(*)",
    tokens_in=("sum(tokens_in)", int),
    tokens_out=("sum(tokens_out)", int),
    cost_micros=("sum(cost_micros)", int),
)
DAY = Columns(
    DaySpend,
    day="at / 86400000",
    answers="count(*)",
    tokens_in=("sum(tokens_in)", int),
    tokens_out=("sum(tokens_out)", int),
    cost_micros=("sum(cost_micros)", int),
)
BY_DAY = f"""
select {DAY} from spend
 where at >= :now - :now % 86400000 - :before_ms and (:agent = '' or agent = :agent)
 group by at / 86400000, agent, model order by at / 86400000, agent, model"""
BY_MODEL = f"""
select {TOTAL} from spend
 where at >= :now - :now % 86400000 - :before_ms and (:agent = '' or agent = :agent)
 group by agent, model, task order by agent, model, task"""


def day_start(now: Instant) -> Instant:
    return Instant(now - now % DAY_MS)


def dollars(micros: int) -> str:
    """The amount in whole cents, or with as many digits as a smaller amount needs."""
    if micros % 10_000 == 0 or micros >= MICROS:
        return f"${micros / MICROS:,.2f}"
    return f"${micros / MICROS:.6f}".rstrip("0")


def used_up(limit_micros: int) -> str:
    """The text for the sender of a message."""
    return f"the agent's daily limit of {dollars(limit_micros)} is used up; it answers again after 00:00 UTC"


@verb
def record_spend(spend: Spend) -> Script[None]:
    yield from run(NEW_SPEND, **{**asdict(spend), "model": plain(spend.model)})


@verb
def sum_spent(agent: AgentName, since: Instant) -> Script[int]:
    row = yield from one(SPENT, agent=agent, since=since)
    return int(row[0]) if row else 0


@verb
def sum_spend_by_model(*, days: int = 1, agent: AgentName | None = None) -> Script[Sequence[SpendTotal]]:
    return (yield from TOTAL.rows(BY_MODEL, before_ms=(days - 1) * DAY_MS, agent=agent or ""))


@verb
def sum_spend_by_day(*, days: int, agent: str = "") -> Script[Sequence[DaySpend]]:
    """Each day up to today, oldest first; days without an answer of a model have no value."""
    return (yield from DAY.rows(BY_DAY, before_ms=(days - 1) * DAY_MS, agent=agent))
