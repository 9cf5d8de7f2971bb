"""Spend: what models cost per agent, model and day, against the caps of the agents."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.console.spend_chart import spend_chart
from holdfast.turns.policy import DAY_MS
from holdfast.turns.spend_sql import DaySpend, dollars, sum_spend_by_day

CHOICE = {"type": "string", "maxLength": 64}
SPANS = {"7": 7, "30": 30, "90": 90}
QUERY = {
    "agent": Param("only this agent's", CHOICE, default=""),
    "days": Param("so many days up to today (UTC)", CHOICE, default="30"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpend:
    agent: str
    today_micros: int
    span_micros: int
    cap_micros: int | None

    @property
    def share(self) -> float | None:
        """Of today's cap, in per cent; None without a cap."""
        if self.cap_micros is None:
            return None
        return 100 * self.today_micros / self.cap_micros if self.cap_micros else 100.0

    @property
    def is_used_up(self) -> bool:
        return self.share is not None and self.share >= 100


@page("/console/spend", query=QUERY)
async def get_spend(asked: Asked) -> PageView:
    """What models cost."""
    agent, days = asked.query["agent"], SPANS.get(asked.query["days"], SPANS["30"])
    found = await asked.read(sum_spend_by_day(days=days))
    now, shown = asked.status.at, [one for one in found if agent in {"", one.agent}]
    agents = [_of_agent(asked, name, found, now // DAY_MS) for name in _names(asked, found)]
    cap = next((one.cap_micros for one in agents if one.agent == agent), None)
    today = sum(one.today_micros for one in agents if agent in {"", one.agent})
    return PageView(
        "spend.html",
        "Spend",
        {
            "asked": {"agent": agent, "days": str(days)},
            "today": today,
            "total": sum(one.cost_micros for one in shown),
            "used_up": [one.agent for one in agents if one.is_used_up],
            "chart": spend_chart(shown, days=days, now=now, cap_micros=cap),
            "agents": agents,
            "models": _by_model(shown),
            "spans": SPANS,
            "days": days,
            "cap": cap,
            "dollars": dollars,
        },
    )


def _names(asked: Asked, found: Sequence[DaySpend]) -> Sequence[str]:
    """The configured agents, and those that were paid for."""
    return sorted({*asked.runtime.agents(), *(one.agent for one in found)})


def _of_agent(asked: Asked, name: str, found: Sequence[DaySpend], today: int) -> AgentSpend:
    own, policy = [one for one in found if one.agent == name], asked.runtime.policy(name)
    return AgentSpend(
        agent=name,
        today_micros=sum(one.cost_micros for one in own if one.day == today),
        span_micros=sum(one.cost_micros for one in own),
        cap_micros=None if policy is None else policy.daily_spend_micros,
    )


def _by_model(found: Sequence[DaySpend]) -> Sequence[tuple[str, str, int, int, int, int]]:
    """Agent, model, answers, tokens in, tokens out and cost; the dearest first."""
    names = dict.fromkeys((one.agent, one.model) for one in found)
    rows = []
    for agent, model in names:
        own = [one for one in found if (one.agent, one.model) == (agent, model)]
        sums = [
            sum(values)
            for values in zip(*((o.answers, o.tokens_in, o.tokens_out, o.cost_micros) for o in own), strict=True)
        ]
        rows.append((agent, model, *sums))
    return sorted(rows, key=lambda row: (-row[5], row[0], row[1]))
