"""Prometheus metrics: counters since the start of this process, and gauges of its current state.

Rule 1: the live feed and the log update counters as events happen; gauges are read at each scrape.
Rule 2: labels are agents, providers, channels, states and codes. No text that a user writes becomes a label.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from holdfast.api.limits.admission import BodyMemory
from holdfast.api.limits.connections import Connections
from holdfast.inbox.channel_status import ConnectionState, ToolServerStatus
from holdfast.kernel import log
from holdfast.kernel.notifier import Event
from holdfast.runtime.views import Health
from holdfast.store.upkeep_sql import Gauges

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ACCEPT_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
TURN_ENDS = {"turn.answered": "answered", "turn.failed": "failed", "turn.interrupted": "interrupted"}


@dataclass(frozen=True, slots=True)
class Present:
    """The values that a scrape shows beside the counters."""

    gauges: Gauges
    health: Health
    channels: Mapping[tuple[str, str], bool] = field(
        default_factory=dict
    )  # by (agent, channel): whether it is connected
    servers: Sequence[ToolServerStatus] = ()  # MCP servers


class Metrics:
    def __init__(self, version: str, wal_bytes: Callable[[], int | None] = lambda: None) -> None:
        self._wal_bytes = wal_bytes
        self._present: Present | None = None
        self.registry = CollectorRegistry()
        self._messages = self._counter("messages", "Messages by what became of them", "outcome")
        self._turns = self._counter("turns", "Turns by outcome", "outcome")
        self._deliveries = self._counter(
            "deliveries", "Attempts at deliveries to memory providers", "provider", "state"
        )
        self._replies = self._counter("replies", "Attempts at replies to platforms", "channel", "state")
        self._compressions = self._counter("compressions", "Compressions by outcome", "outcome")
        self._refusals = self._counter("http_errors", "Requests that were answered with an error", "code")
        self._drops = self._counter(
            "http_connections_dropped", "Connections that were cut off to make room for others", "reason"
        )
        self.accept_seconds = Histogram(
            "holdfast_accept_seconds",
            "From the whole request over HTTP to the message being durable",
            buckets=ACCEPT_SECONDS,
            registry=self.registry,
        )
        self.sockets = Gauge("holdfast_websockets", "Open WebSocket connections", registry=self.registry)
        build = Gauge("holdfast_build_info", "The running version", ["version"], registry=self.registry)
        build.labels(version).set(1)
        self.registry.register(self)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"holdfast_{name}", what, labels, registry=self.registry)

    def hear(self, event: Event) -> None:
        """Count one event of the live feed."""
        name = event.name
        if name == "message.accepted":
            self._messages.labels("accepted").inc()
        elif name in TURN_ENDS:
            self._turns.labels(TURN_ENDS[name]).inc()
            self._messages.labels(TURN_ENDS[name]).inc(len(event.messages))
        elif name == "command.done":
            self._messages.labels("command").inc()
        elif name == "message.observed":
            self._messages.labels("held" if event.fields.get("held") else "observed").inc(len(event.messages))
        elif name == "delivery.settled":
            self._deliveries.labels(str(event.fields.get("provider")), str(event.fields.get("state"))).inc()
        elif name == "reply.settled":
            self._replies.labels(str(event.fields.get("channel")), str(event.fields.get("state"))).inc()
        elif name == "compress.done":
            self._compressions.labels(str(event.fields.get("outcome"))).inc()

    def refused(self, code: str) -> None:
        """Count one error. Codes come from Holdfast's own table of errors."""
        self._refusals.labels(code).inc()

    def dropped(self, reason: str) -> None:
        """Count one connection that was closed to free capacity: `half_open`, `connections`, `slow` or `drain`."""
        self._drops.labels(reason).inc()

    def count_held(self, bodies: BodyMemory, connections: Connections) -> None:
        """Register gauges for the memory of request bodies and for open connections."""
        held = Gauge("holdfast_http_body_bytes", "Bytes of request bodies in memory", registry=self.registry)
        held.set_function(lambda: bodies.held)
        opened = Gauge("holdfast_http_connections", "Open connections", registry=self.registry)
        opened.set_function(lambda: len(connections))

    def render(self, present: Present) -> bytes:
        self._present = present
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        """The gauges of the current scrape, for the registry."""
        if self._present is None:
            return
        gauges, health = self._present.gauges, self._present.health
        yield _gauge("up", "Whether a real write succeeded just now", {(): health.ok})
        waiting = {(agent,): count for agent, count in gauges.messages_waiting.items()}
        yield _gauge("messages_waiting", "Messages that are not answered yet", waiting, "agent")
        oldest = gauges.at - gauges.oldest_ready_at if gauges.oldest_ready_at is not None else 0
        yield _gauge(
            "oldest_waiting_seconds", "How long the mailbox that waits longest has waited", {(): oldest / 1000}
        )
        yield _gauge("deliveries_open", "Deliveries that have not ended well", gauges.deliveries, "provider", "state")
        yield _gauge("replies_open", "Replies that have not been delivered", gauges.replies, "channel", "state")
        channels = self._present.channels
        yield _gauge("channel_up", "Whether the channel is connected to its platform", channels, "agent", "channel")
        yield from _servers(self._present.servers)
        wal_bytes = self._wal_bytes()
        if wal_bytes is not None:
            yield _gauge("wal_bytes", "Size of the store's write-ahead log", {(): wal_bytes})
        troubles = CounterMetricFamily("holdfast_troubles", "Warnings and errors in the log", labels=["event"])
        for event, count in log.troubles().items():
            troubles.add_metric([event], count)
        yield troubles


def _servers(found: Sequence[ToolServerStatus]) -> Iterable[Metric]:
    up = {(one.agent, one.server): one.state is ConnectionState.UP for one in found}
    yield _gauge("mcp_up", "Whether the MCP server is connected", up, "agent", "server")
    restarts = CounterMetricFamily(
        "holdfast_mcp_restarts", "Connections to an MCP server after the first one", labels=["agent", "server"]
    )
    for one in found:
        restarts.add_metric([one.agent, one.server], one.restarts)
    yield restarts


def _gauge(name: str, what: str, samples: Mapping[Any, float], *labels: str) -> GaugeMetricFamily:
    """A gauge with a number for each tuple of label values."""
    family = GaugeMetricFamily(f"holdfast_{name}", what, labels=labels)
    for values, number in samples.items():
        family.add_metric(values, float(number))
    return family
