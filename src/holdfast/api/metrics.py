"""Prometheus metrics: counters since the start of this process, and gauges of the present state (gauges.py).

Rule 1: the live feed and the log update counters as events happen; gauges are read at each scrape, with a number of
        statements that does not depend on the store.
Rule 2: labels are agents, providers, channels, models, tools, states and codes. No text that a user writes becomes a
        label, and beyond a limit of values the rest are counted as `other`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

from holdfast.api.gauges import Present, gauges
from holdfast.api.limits.admission import BodyMemory
from holdfast.api.limits.connections import Connections
from holdfast.kernel.notifier import Event

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ACCEPT_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
WORK_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
TURN_ENDS = {"turn.answered": "answered", "turn.failed": "failed", "turn.interrupted": "interrupted"}
VALUES_MAX = 256  # of one label
OTHER = "other"


class Labels:
    """The values of labels that were seen, each label with a limit."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def __call__(self, fields: Mapping[str, Any], *names: str) -> list[str]:
        """The values of an event's fields, in order."""
        return [self._one(name, str(fields.get(name) or "")) for name in names]

    def _one(self, name: str, value: str) -> str:
        seen = self._seen.setdefault(name, set())
        if value in seen or len(seen) < VALUES_MAX:
            seen.add(value)
            return value
        return OTHER


def _number(fields: Mapping[str, Any], name: str) -> int:
    found = fields.get(name)
    return found if isinstance(found, int) else 0


class Metrics:
    def __init__(self, version: str, wal_bytes: Callable[[], int | None] = lambda: None) -> None:
        self._wal_bytes = wal_bytes
        self._present: Present | None = None
        self._labels = Labels()
        self.registry = CollectorRegistry()
        self._messages = self._counter("messages", "Messages by what became of them", "outcome")
        self._turns = self._counter("turns", "Turns by outcome", "agent", "outcome")
        self._deliveries = self._counter(
            "deliveries", "Attempts at deliveries to memory providers", "agent", "provider", "state"
        )
        self._replies = self._counter("replies", "Attempts at replies to platforms", "agent", "channel", "state")
        self._compressions = self._counter("compressions", "Compressions by outcome", "agent", "outcome")
        self._calls = {
            "model": self._counter("model_requests", "Requests to models by outcome", "agent", "name", "outcome"),
            "tool": self._counter("tool_calls", "Tool calls by outcome", "agent", "name", "outcome"),
            "recall": self._counter("recalls", "Queries of memory for a turn by outcome", "agent", "outcome"),
        }
        self._seconds = {
            "model": self._histogram("model_seconds", "Duration of a request to a model", "agent", "name"),
            "tool": self._histogram("tool_seconds", "Duration of a tool call", "agent", "name"),
            "recall": self._histogram("recall_seconds", "Duration of a query of memory for a turn", "agent"),
            "compression": self._histogram("compression_wait_seconds", "A turn's wait for a summary", "agent"),
        }
        self._tokens = self._counter("tokens", "Tokens of turns, in and out", "agent", "name", "direction")
        self._cost = self._counter("cost_dollars", "Cost of models with a known price", "agent", "model", "task")
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

    def _histogram(self, name: str, what: str, *labels: str) -> Histogram:
        return Histogram(f"holdfast_{name}", what, labels, buckets=WORK_SECONDS, registry=self.registry)

    def hear(self, event: Event) -> None:
        """Count one event of the live feed."""
        name, fields = event.name, event.fields
        if name == "turn.activity":
            self._hear_activity(fields)
        elif name == "message.accepted":
            self._messages.labels("accepted").inc()
        elif name in TURN_ENDS:
            self._turns.labels(*self._labels(fields, "agent"), TURN_ENDS[name]).inc()
            self._messages.labels(TURN_ENDS[name]).inc(len(event.messages))
        elif name == "command.done":
            self._messages.labels("command").inc()
        elif name == "message.observed":
            self._messages.labels("held" if fields.get("held") else "observed").inc(len(event.messages))
        elif name == "delivery.settled":
            self._deliveries.labels(*self._labels(fields, "agent", "provider", "state")).inc()
        elif name == "reply.settled":
            self._replies.labels(*self._labels(fields, "agent", "channel", "state")).inc()
        elif name == "compress.done":
            self._compressions.labels(*self._labels(fields, "agent", "outcome")).inc()
        elif name == "model.paid":
            self._cost.labels(*self._labels(fields, "agent", "model", "task")).inc(_number(fields, "cost_micros") / 1e6)

    def _hear_activity(self, fields: Mapping[str, Any]) -> None:
        kind = str(fields.get("kind"))
        named = ("agent", "name") if kind in {"model", "tool"} else ("agent",)
        values = self._labels(fields, *named)
        if kind in self._seconds:
            self._seconds[kind].labels(*values).observe(_number(fields, "duration_ms") / 1_000)
        if kind in self._calls:
            self._calls[kind].labels(*values, *self._labels(fields, "outcome")).inc()
        if kind == "model":
            for direction in ("in", "out"):
                self._tokens.labels(*values, direction).inc(_number(fields, f"tokens_{direction}"))

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
        return () if self._present is None else gauges(self._present, self._wal_bytes())
