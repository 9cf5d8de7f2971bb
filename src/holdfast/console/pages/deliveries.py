"""Deliveries: how far each provider is behind, which lanes wait, and what is parked."""

from collections.abc import Mapping, Sequence

from holdfast.api.endpoint import Param
from holdfast.console.chart import Value, buckets, chart, lag_chart, level, times_until, total
from holdfast.console.page import Asked, PageView, page
from holdfast.console.providers import lag_of, provider_names, provider_now, settled_by
from holdfast.kernel.ids import DeliveryId
from holdfast.memory.lane import LaneKey
from holdfast.monitor.durations import duration
from holdfast.monitor.queues import OPEN_DELIVERIES, Queue
from holdfast.monitor.sample import HOUR_MS, MINUTE_MS, SampleSpan, added_up
from holdfast.monitor.sample_sql import list_samples
from holdfast.monitor.status import NeedKind, plural
from holdfast.monitor.undecided_sql import list_lanes, list_parked, plan_replay

SPANS: Mapping[str, tuple[int, int]] = {"hour": (HOUR_MS, MINUTE_MS), "day": (24 * HOUR_MS, 10 * MINUTE_MS)}
QUERY = {"span": Param("`hour` or `day`", {"type": "string", "maxLength": 8}, default="hour")}
SHOWN_MAX = 100


@page("/console/deliveries", query=QUERY)
async def get_deliveries(asked: Asked) -> PageView:
    """What memory providers do not have yet."""
    span = asked.query["span"] if asked.query["span"] in SPANS else "hour"
    length_ms, width_ms = SPANS[span]
    times = times_until(asked.status.at, span_ms=length_ms, width_ms=width_ms)
    samples = added_up(await asked.read(list_samples(SampleSpan.MINUTE, times[0])))
    lanes = await asked.read(list_lanes(limit=SHOWN_MAX))
    parked = await asked.read(list_parked(limit=SHOWN_MAX))
    names = provider_names(asked, samples)
    found = buckets(samples, times, width_ms)
    restarts = [node.started_at for node in asked.status.nodes]
    settled = {name: [_per_minute(total(one, settled_by(name)), width_ms) for one in found] for name in names}
    return PageView(
        "deliveries.html",
        "Deliveries",
        {
            "first": _headline(asked, parked_count(asked)),
            "span": span,
            "charts": [
                lag_chart({name: [level(one, lag_of(name)) for one in found] for name in names}, times, restarts),
                chart("Settled", settled, times, words=lambda value: f"{value:.3g} a minute", marks=restarts),
            ],
            "providers": [provider_now(asked, name) for name in names],
            "lanes": lanes,
            "parked": parked,
            "parked_count": parked_count(asked),
        },
    )


@page("/console/deliveries/replay/{delivery:path}")
async def get_replay(asked: Asked) -> PageView:
    """What replaying a delivery would do."""
    plan = await asked.read(plan_replay(DeliveryId(asked.call.id("delivery"))))
    return PageView("replay.html", "Replay a delivery", {"plan": plan, "one": plan.delivery})


def parked_count(asked: Asked) -> int:
    queues: Mapping[LaneKey, Queue] = asked.status.queues.deliveries
    return sum(queue.count("parked") for queue in queues.values())


def _headline(asked: Asked, parked: int) -> Sequence[tuple[str, str]]:
    queues = list(asked.status.queues.deliveries.values())
    waiting = sum(queue.count(*OPEN_DELIVERIES) for queue in queues)
    stuck = sum(need.kind is NeedKind.LANE for need in asked.needs)
    oldest = max((asked.status.queues.age_ms(queue) for queue in queues), default=0)
    told = [
        ("bad", plural(stuck, "lane stuck", "lanes stuck")),
        ("hot", f"{parked} parked" if parked else ""),
        ("quiet", f"{waiting} waiting, oldest {duration(oldest)}" if waiting else ""),
    ]
    return [one for one in told if one[1]] or [("", "Every provider has everything")]


def _per_minute(value: Value, width_ms: int) -> Value:
    return None if value is None else value * MINUTE_MS / width_ms
