"""The promise: every series, label and state that the dashboard and the alert rules in deploy/monitoring name exists in
a scrape, so that neither shows nothing for a reason that nobody notices.
"""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.api.gauges import Present
from holdfast.api.metrics import TURN_ENDS, Metrics
from holdfast.inbox.channel_status import ComponentKind, ComponentStatus, ConnectionState
from holdfast.kernel import log
from holdfast.kernel.ids import AgentName, Instant, Provider
from holdfast.kernel.notifier import Event
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.lane import LaneKey
from holdfast.monitor.queues import AgentOnChannel, Queue, Queues
from holdfast.monitor.status import Need, NeedKind, RunningTurn, StoreStatus, Urgency
from holdfast.outbox.post import ReplyState
from holdfast.runtime.views import Health
from holdfast.store.damage import StoreMeasures
from tests.support.fakes import ScriptedModel, calls, says
from tests.support.live import serve

yaml: Any = import_module("yaml")  # without types
FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SHOWN = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = [*SHOWN, *((rule["alert"], rule["expr"]) for rule in RULES)]
SERIES = re.compile(r"\bholdfast_\w+")
SELECTOR = re.compile(r"\b(holdfast_\w+)\s*\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|=|!=)\s*"([^"]*)"')
GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
SUFFIXES = ("_bucket", "_sum", "_count", "_total")
VALUES = {
    ("holdfast_needs", "urgency"): {urgency.value for urgency in Urgency},
    ("holdfast_turns_total", "outcome"): set(TURN_ENDS.values()),
    ("holdfast_model_requests_total", "outcome"): {"answered", "called tools", "failed", "interrupted"},
    ("holdfast_replies_open", "state"): {state.value for state in ReplyState},
    ("holdfast_deliveries_open", "state"): {state.value for state in DeliveryState},
}
NOON, ADA = Instant(10_000_000), AgentName("ada")


def families_of(text):
    """The series of each family of a scrape, also of families without a sample."""
    return {family.name for family in text_string_to_metric_families(text)}


def family_of(series):
    return next((series.removesuffix(suffix) for suffix in SUFFIXES if series.endswith(suffix)), series)


async def test_every_series_is_in_a_real_scrape(tmp_path):
    model = ScriptedModel(calls('memory {"action": "read"}'), otherwise=says("hello"))
    async with serve(tmp_path, model=model) as live:
        await live.runtime.ask("c", "hello")
        text = (await live.get("/metrics")).text
    known = families_of(text) | {"holdfast_wal_bytes"}  # `holdfast up` names the log's file; see the test below
    named = {series for _, expression in EXPRESSIONS for series in SERIES.findall(expression)}
    assert {series for series in named if series not in known and family_of(series) not in known} == set()
    assert len(named) > 25


async def test_up_shows_the_size_of_its_log(tmp_path):
    status = StoreStatus(at=NOON, queues=Queues(at=NOON, messages={}, deliveries={}, replies={}))
    present = Present(status=status, health=Health(ok=True, at=NOON))
    assert "holdfast_wal_bytes" in families_of(Metrics("1", lambda: 1).render(present).decode())


def populated():
    """A scrape in which every family has a sample."""
    metrics = Metrics("1", lambda: 1)
    of_ada: dict[str, object] = {
        "agent": "ada",
        "name": "x",
        "outcome": "done",
        "state": "delivered",
        "provider": "p",
        "channel": "c",
    }
    activities = [{**of_ada, "kind": kind} for kind in ("model", "tool", "recall", "compression")]
    for name in ("turn.answered", "delivery.settled", "reply.settled", "compress.done"):
        metrics.hear(Event(name=name, fields=of_ada))
    for fields in activities:
        metrics.hear(Event(name="turn.activity", fields=fields))
    metrics.hear(Event(name="model.paid", fields={"agent": "ada", "model": "m", "task": "reply", "cost_micros": 1}))
    metrics.refused("x")
    log.warning("store.unchecked", code="x")
    queue = Queue(states={"waiting": 1, "scheduled": 1, "pending": 1}, oldest_at=NOON)
    queues = Queues(
        at=NOON,
        messages={"ada": queue},
        deliveries={LaneKey(ADA, Provider("p")): queue},
        replies={AgentOnChannel("ada", "c"): queue},
    )
    need = Need(urgency=Urgency.STUCK, kind=NeedKind.LANE, agent="ada", what="", since=NOON)
    turn = RunningTurn(
        agent="ada",
        session="s",
        n=1,
        phase="thinking",
        attempt=1,
        opened_at=NOON,
        message="m",
        chat="c",
        node=None,
        is_claimed=True,
    )
    bot = ComponentStatus(kind=ComponentKind.CHANNEL, agent=ADA, name="telegram", state=ConnectionState.UP, since=NOON)
    status = StoreStatus(at=NOON, queues=queues, needs=(need,), running=(turn,))
    health = Health(ok=True, at=NOON, proved_write_ms=1)
    present = Present(status=status, health=health, components=(bot,), measures=StoreMeasures(), free_bytes=1)
    return metrics.render(present).decode()


LABELS = {
    family.name: {name for sample in family.samples for name in sample.labels}
    for family in text_string_to_metric_families(populated())
}


def labels_of(series):
    return LABELS.get(series) or LABELS[family_of(series)]


@pytest.mark.parametrize(("name", "expression"), EXPRESSIONS, ids=lambda one: one[:40])
def test_every_label_and_state_of_an_expression_exists(name, expression):
    del name
    grouped = {label.strip() for found in GROUPED.findall(expression) for label in found.split(",")}
    series = SERIES.findall(expression)
    assert all(grouped <= labels_of(one) for one in series), (grouped, series)
    for one, matchers in SELECTOR.findall(expression):
        for label, _, wanted in MATCHER.findall(matchers):
            assert label in labels_of(one)
            if wanted != "$agent":
                assert set(wanted.split("|")) <= VALUES[one, label], (one, label)
    assert all(expression.count(opens) == expression.count(closes) for opens, closes in ("()", "{}", "[]"))


def test_legends_name_labels_that_their_expressions_keep():
    for panel in PANELS:
        for target in panel["targets"]:
            kept = {label.strip() for found in GROUPED.findall(target["expr"]) for label in found.split(",")}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]


def test_alerts_say_what_happened_and_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        kept = {label.strip() for found in GROUPED.findall(rule["expr"]) for label in found.split(",")}
        series = SERIES.findall(rule["expr"])
        assert named <= (kept or (labels_of(series[0]) if series else set())), rule["alert"]


def test_panels_of_the_dashboard_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
