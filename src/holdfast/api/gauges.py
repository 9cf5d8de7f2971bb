"""The gauges of a scrape: what waits and since when, what needs a person, and the state of components and the store."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from holdfast.inbox.channel_status import ComponentKind, ComponentStatus, ConnectionState, ToolServerStatus
from holdfast.kernel import log
from holdfast.monitor.queues import Queues
from holdfast.monitor.status import StoreStatus
from holdfast.runtime.views import Health
from holdfast.store.damage import Distribution, StoreMeasures


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The values that a scrape shows beside the counters."""

    status: StoreStatus  # with the needs of components
    health: Health
    components: Sequence[ComponentStatus] = ()
    servers: Sequence[ToolServerStatus] = ()  # MCP servers
    sample_holes: int = 0  # minutes of the last hour without a sample
    measures: StoreMeasures | None = None
    free_bytes: int | None = None


def gauges(present: Present, wal_bytes: int | None) -> Iterable[Metric]:
    health = present.health
    yield _gauge("up", "Whether this process serves and a real write succeeded just now", {(): health.ok})
    if health.proved_write_ms is not None:
        yield _gauge("proved_write_seconds", "Duration of that write", {(): health.proved_write_ms / 1_000})
    yield from _queues(present.status.queues)
    yield from _needs(present.status)
    yield from _components(present)
    yield from _store(present, wal_bytes)
    troubles = CounterMetricFamily("holdfast_troubles", "Warnings and errors in the log", labels=["event"])
    for event, count in log.troubles().items():
        troubles.add_metric([event], count)
    yield troubles


def _queues(queues: Queues) -> Iterable[Metric]:
    messages = queues.messages
    unanswered = {(agent,): queue.count("waiting", "in_turn") for agent, queue in messages.items()}
    yield _gauge("messages_waiting", "Messages that are not answered yet", unanswered, "agent")
    by_state = {(agent, state): count for agent, queue in messages.items() for state, count in queue.states.items()}
    yield _gauge("queue_messages", "Messages that are not answered yet, by state", by_state, "agent", "state")
    ages = {(agent,): queues.age_ms(queue) / 1_000 for agent, queue in messages.items()}
    yield _gauge("message_age_seconds", "Age of the oldest message that is not answered yet", ages, "agent")
    oldest = max(ages.values(), default=0)
    yield _gauge("oldest_waiting_seconds", "Age of the oldest message of all agents that is not answered", {(): oldest})
    deliveries = {(key.agent, key.provider): queue for key, queue in queues.deliveries.items()}
    of_provider = ("agent", "provider")
    open_ = {(*key, state): count for key, queue in deliveries.items() for state, count in queue.states.items()}
    yield _gauge("deliveries_open", "Deliveries that have not ended well", open_, *of_provider, "state")
    lags = {key: queues.age_ms(queue) / 1_000 for key, queue in deliveries.items()}
    yield _gauge("delivery_lag_seconds", "Age of the oldest delivery that has not ended", lags, *of_provider)
    replies = {(key.agent, key.channel): queue for key, queue in queues.replies.items()}
    of_channel = ("agent", "channel")
    unsent = {(*key, state): count for key, queue in replies.items() for state, count in queue.states.items()}
    yield _gauge("replies_open", "Replies that have not been delivered", unsent, *of_channel, "state")
    late = {key: queues.age_ms(queue) / 1_000 for key, queue in replies.items()}
    yield _gauge("reply_lag_seconds", "Age of the oldest reply that is to be sent", late, *of_channel)


def _needs(status: StoreStatus) -> Iterable[Metric]:
    found: Counter[tuple[str, str]] = Counter()
    for need in status.needs:
        found[need.urgency.value, need.kind.value] += need.count
    yield _gauge("needs", "What a person should know, by urgency", found, "urgency", "kind")
    running = Counter((turn.agent,) for turn in status.running)
    yield _gauge("turns_running", "Open turns", running, "agent")
    yield _gauge("nodes", "Processes that serve the store", {(): len(status.nodes)})
    yield _gauge("nodes_lost", "Processes that ended without a word in the last hour", {(): len(status.lost)})


def _components(present: Present) -> Iterable[Metric]:
    named = ("kind", "agent", "name")
    components = {(one.kind.value, one.agent, one.name): one for one in present.components}
    used = {key: one for key, one in components.items() if one.state is not ConnectionState.UNKNOWN}
    up = {key: one.state is ConnectionState.UP for key, one in used.items()}
    yield _gauge("component_up", "Whether the newest use of a channel, tool server or model succeeded", up, *named)
    failures = {key: one.attempts for key, one in components.items()}
    yield _gauge("component_failures", "Failures since the newest success", failures, *named)
    channels = {
        (one.agent, one.name): one.state is ConnectionState.UP
        for one in present.components
        if one.kind is ComponentKind.CHANNEL
    }
    yield _gauge("channel_up", "Whether the channel is connected to its platform", channels, "agent", "channel")
    servers = {(one.agent, one.server): one.state is ConnectionState.UP for one in present.servers}
    yield _gauge("mcp_up", "Whether the MCP server is connected", servers, "agent", "server")
    restarts = CounterMetricFamily(
        "holdfast_mcp_restarts", "Connections to an MCP server after the first one", labels=["agent", "server"]
    )
    for one in present.servers:
        restarts.add_metric([one.agent, one.server], one.restarts)
    yield restarts


def _store(present: Present, wal_bytes: int | None) -> Iterable[Metric]:
    if wal_bytes is not None:
        yield _gauge("wal_bytes", "Size of the store's write-ahead log", {(): wal_bytes})
    if present.free_bytes is not None:
        yield _gauge("disk_free_bytes", "Space that is left on the disk of the store", {(): present.free_bytes})
    holes = {(): present.sample_holes}
    yield _gauge("sample_holes", "Minutes of the last hour in which no process recorded a sample", holes)
    if present.measures is not None:
        present.measures.count()
        calls, seconds = present.measures.batch_calls, present.measures.commit_seconds
        yield _histogram("store_batch_calls", "Writes that share a commit", calls)
        yield _histogram("store_commit_seconds", "Duration of a commit with its sync", seconds)


def _gauge(name: str, what: str, samples: Mapping[Any, float], *labels: str) -> GaugeMetricFamily:
    """A gauge with a number for each tuple of label values."""
    family = GaugeMetricFamily(f"holdfast_{name}", what, labels=labels)
    for values, number in samples.items():
        family.add_metric(values, float(number))
    return family


def _histogram(name: str, what: str, found: Distribution) -> HistogramMetricFamily:
    total, buckets = 0, []
    for bound, count in zip([*map(str, found.bounds), "+Inf"], found.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return HistogramMetricFamily(f"holdfast_{name}", what, buckets=buckets, sum_value=found.total)
