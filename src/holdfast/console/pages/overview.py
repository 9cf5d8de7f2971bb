"""The overview: what needs a person, one row for each agent, and how each memory provider does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.responses import RedirectResponse, Response

from holdfast.console.chart import Bars, Value, buckets, ceiling, level, path, sparkline, times_until, total
from holdfast.console.needs import gathered
from holdfast.console.page import Asked, PageView, page
from holdfast.console.providers import ProviderNow, lag_of, provider_names, provider_now
from holdfast.inbox.channel_status import ChannelStatus, ConnectionState, ToolServerStatus
from holdfast.kernel.ids import Instant
from holdfast.monitor.queues import OPEN_DELIVERIES, Queue
from holdfast.monitor.sample import HOUR_MS, MINUTE_MS, Sample, SampleSpan, added_up
from holdfast.monitor.sample_sql import list_samples
from holdfast.monitor.status import Need, NeedKind, Urgency, headline
from holdfast.turns.spend_sql import SpendTotal, dollars, sum_spend_by_model

RANKS = {"needs you": "hot", "need you": "hot", "stuck": "bad"}
CALM = "Nothing needs you"
ENDED = ("answered", "failed", "interrupted")
LINKS = {
    NeedKind.APPROVAL: ("Review", "/console/approvals#{}"),
    NeedKind.TURN: ("Trace", "/console/trace/{}"),
    NeedKind.LANE: ("See lanes", "/console/deliveries#h-lanes"),
    NeedKind.DELIVERY: ("See deliveries", "/console/deliveries"),
    NeedKind.REPLY: ("Decide", "/console/replies"),
    NeedKind.CHANNEL: ("See health", "/console/health"),
    NeedKind.TOOLS: ("See health", "/console/health"),
    NeedKind.MODEL: ("See health", "/console/health"),
    NeedKind.MEMORY: ("See health", "/console/health"),
    NeedKind.MAIL: ("See messages", "/console/messages?state=waiting"),
    NeedKind.EXTRACTION: ("See finish", "/console/finish"),
    NeedKind.PAIRING: ("Decide", "/console/people"),
    NeedKind.STORE: ("See health", "/console/health"),
}
SLOTS_MAX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLine:
    """An agent in one line."""

    name: str
    mark: str  # needs, stuck or empty
    channels: Sequence[ChannelStatus]
    servers_down: Sequence[ToolServerStatus]
    running: int
    awaiting: int
    queued: int
    is_paused: bool
    oldest_ms: int
    turns: Bars
    undelivered: int
    model: str
    tokens: int
    cost: str
    cap: str  # empty without a limit
    cap_share: float

    @property
    def slots(self) -> Sequence[str]:
        """One for each turn or message: running, awaiting, queued."""
        made = ["run"] * self.running + ["person"] * self.awaiting + ["queue"] * self.queued
        return made[:SLOTS_MAX]

    @property
    def now(self) -> str:
        told = [
            "paused" if self.is_paused else "",
            f"{self.running} running" if self.running else "",
            f"{self.awaiting} awaits a person" if self.awaiting else "",
            f"{self.queued} queued" if self.queued else "",
        ]
        return " · ".join(filter(None, told)) or "idle"


@page("/console")
async def get_overview(asked: Asked) -> PageView:
    """What needs a person, and how each agent does."""
    times = times_until(asked.status.at, span_ms=HOUR_MS)
    samples = added_up(await asked.read(list_samples(SampleSpan.MINUTE, times[0])))
    spent = await asked.read(sum_spend_by_model(days=1))
    shown = gathered(asked.needs)
    told = headline(replace(asked.status, needs=shown))
    agents = _agents(asked, samples, times, spent)
    return PageView(
        "overview.html",
        "Overview",
        {
            "first": [(_rank(words), words) for words in told.first],
            "second": [*told.second, *_parts(asked)],
            "links": _link,
            "shown_needs": shown,
            "agents": agents,
            "turns": sum(row.turns.total for row in agents),
            "cost": dollars(sum(one.cost_micros for one in spent)),
            "providers": _providers(asked, samples, times),
        },
    )


@page("/console/")
async def get_overview_again(_asked: Asked) -> PageView | Response:
    """The overview under the address with a slash."""
    return RedirectResponse("/console", 308)


def _rank(words: str) -> str:
    if words == CALM:
        return ""
    return next((rank for ending, rank in RANKS.items() if words.endswith(ending)), "quiet")


def _link(need: Need) -> tuple[str, str] | None:
    """Where a person acts on a need: the words of the link and its address."""
    found = LINKS.get(need.kind)
    return None if found is None else (found[0], found[1].format(need.subject))


def _parts(asked: Asked) -> list[str]:
    """How many of the connections are there."""
    runtime = asked.runtime
    told = []
    for words, states in (
        ("tool servers", [one.state for one in runtime.tool_servers()]),
        ("channels", [one.state for one in runtime.channel_registry.statuses()]),
    ):
        if states:
            told.append(f"{states.count(ConnectionState.UP)} of {len(states)} {words} connected")
    return told


# --- agents ------------------------------------------------------------------------------------------


def _agents(
    asked: Asked, samples: Mapping[Instant, Sample], times: Sequence[Instant], spent: Sequence[SpendTotal]
) -> list[AgentLine]:
    found = buckets(samples, times, MINUTE_MS)
    names = sorted(
        {*asked.runtime.agents(), *asked.status.queues.messages, *(turn.agent for turn in asked.status.running)}
    )
    turns: dict[str, list[Value]] = {
        name: [total(one, {f"{ending}/{name}" for ending in ENDED}.__contains__) for one in found] for name in names
    }
    scale = max((value or 0 for points in turns.values() for value in points), default=1)
    return [_agent(asked, name, sparkline(turns[name], scale), spent) for name in names]


def _agent(asked: Asked, name: str, turns: Bars, spent: Sequence[SpendTotal]) -> AgentLine:
    status, runtime = asked.status, asked.runtime
    queue = status.queues.messages.get(name, Queue())
    running = [turn for turn in status.running if turn.agent == name]
    awaiting = sum(turn.phase == "awaiting" for turn in running)
    own = [one for one in spent if one.agent == name]
    cost, policy = sum(one.cost_micros for one in own), runtime.policy_of(name)
    cap = policy.daily_spend_micros if policy is not None else None
    return AgentLine(
        name=name,
        mark=_mark(asked.needs, name),
        channels=[one for one in runtime.channel_registry.statuses() if one.agent == name],
        servers_down=[one for one in runtime.tool_servers() if one.agent == name and one.state is ConnectionState.DOWN],
        running=len(running) - awaiting,
        awaiting=awaiting,
        queued=queue.count("waiting"),
        is_paused=any(one.agent == name for one in status.paused),
        oldest_ms=status.queues.age_ms(queue),
        turns=turns,
        undelivered=sum(
            one.count(*OPEN_DELIVERIES) for key, one in status.queues.deliveries.items() if key.agent == name
        ),
        model=runtime.model_of(name),
        tokens=sum(one.tokens_in + one.tokens_out for one in own),
        cost=dollars(cost),
        cap="" if cap is None else dollars(cap),
        cap_share=0.0 if not cap else min(1.0, cost / cap),
    )


def _mark(needs: Sequence[Need], agent: str) -> str:
    urgencies = {need.urgency for need in needs if need.agent == agent}
    if Urgency.STUCK in urgencies:
        return "stuck"
    return "needs" if Urgency.HOLDS_UP in urgencies else ""


# --- providers ---------------------------------------------------------------------------------------


def _providers(
    asked: Asked, samples: Mapping[Instant, Sample], times: Sequence[Instant]
) -> list[tuple[ProviderNow, str]]:
    """Each provider, with the drawing of its lag in the last hour."""
    found = buckets(samples, times, MINUTE_MS)
    told = []
    for name in provider_names(asked, samples):
        points = [level(one, lag_of(name)) for one in found]
        top = ceiling(max((value or 0 for value in points), default=0))
        told.append((provider_now(asked, name), path(points, max(top, 4 * MINUTE_MS / 60))))
    return told
