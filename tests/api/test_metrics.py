"""Metrics count what happens, and no chat is a label."""

import json
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from holdfast.api.gauges import Present
from holdfast.api.metrics import VALUES_MAX, Metrics
from holdfast.inbox.channel_status import ChannelStatus, ComponentKind, ComponentStatus, ConnectionState
from holdfast.kernel.ids import AgentName, Instant, Provider
from holdfast.kernel.notifier import Event
from holdfast.memory.lane import LaneKey
from holdfast.monitor.component_needs import component_needs
from holdfast.monitor.queues import AgentOnChannel, Queue, Queues
from holdfast.monitor.status import StoreStatus
from holdfast.runtime.views import Health
from holdfast.store.damage import StoreMeasures
from holdfast.turns.model import ModelAnswer
from tests.support.counting import CountingDatabase
from tests.support.fakes import ScriptedModel, emits
from tests.support.live import TOKEN, serve

ADA = AgentName("ada")
NOON = Instant(10_000_000)
STATEMENTS_MAX = 16  # of one scrape; the write and the sign of life of the health check are counted elsewhere


def samples(text):
    return {
        (one.name, *sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


async def test_what_happens_is_counted(tmp_path):
    async with serve(tmp_path) as live:
        said = await live.say("My cat is called Byron.", chat="secret-chat", sender="secret-sender")
        await live.runtime.reply_to(said.json()["message"])
        await live.runtime.ask("secret-chat", "/status", sender="secret-sender")
        await live.get("/v1/messages/msg_never")
        response = await live.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        found = samples(response.text)
    assert found["holdfast_messages_total", ("outcome", "accepted")] == 2
    assert found["holdfast_messages_total", ("outcome", "answered")] == 1
    assert found["holdfast_turns_total", ("agent", "main"), ("outcome", "answered")] == 1
    assert found["holdfast_accept_seconds_count",] == 1
    assert found["holdfast_http_errors_total", ("code", "message_not_found")] == 1
    assert found["holdfast_build_info", ("version", "0")] == 1
    assert found["holdfast_up",] == 1
    assert found["holdfast_oldest_waiting_seconds",] == 0
    assert "secret" not in response.text


async def test_every_way_in_over_http_is_timed(tmp_path):
    async with serve(tmp_path) as live:
        await live.say("hello")
        streamed = {"chat": "hello", "id": "2", "text": "again"}
        await live.client.post("/v1/messages", json=streamed, headers={"Accept": "text/event-stream"})
        await live.post("/v1/chat/completions", {"model": "main", "messages": [{"role": "user", "content": "hello"}]})
        await live.post("/v1/responses", {"model": "main", "input": "hello"})
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with connect(f"{live.url.replace('http', 'ws')}/v1/ws", proxy=None, additional_headers=headers) as socket:
            await socket.recv()
            await socket.send(json.dumps({"type": "send", "chat": "hello", "id": "3", "text": "once more"}))
            await socket.recv()
        found = samples((await live.get("/metrics")).text)
    assert found["holdfast_accept_seconds_count",] == 5


@pytest.mark.parametrize(
    ("event", "sample"),
    [
        (Event(name="turn.failed", messages=("a", "b")), ("holdfast_messages_total", ("outcome", "failed"))),
        (
            Event(name="turn.interrupted", fields={"agent": "ada"}),
            ("holdfast_turns_total", ("agent", "ada"), ("outcome", "interrupted")),
        ),
        (
            Event(name="message.observed", messages=("a",), fields={"held": "loop"}),
            ("holdfast_messages_total", ("outcome", "held")),
        ),
        (
            Event(name="delivery.settled", fields={"agent": "ada", "provider": "local", "state": "delivered"}),
            ("holdfast_deliveries_total", ("agent", "ada"), ("provider", "local"), ("state", "delivered")),
        ),
        (
            Event(name="reply.settled", fields={"agent": "ada", "channel": "telegram", "state": "uncertain"}),
            ("holdfast_replies_total", ("agent", "ada"), ("channel", "telegram"), ("state", "uncertain")),
        ),
        (
            Event(name="compress.done", fields={"agent": "ada", "outcome": "done"}),
            ("holdfast_compressions_total", ("agent", "ada"), ("outcome", "done")),
        ),
    ],
)
def test_each_event_counts_where_it_belongs(event, sample):
    metrics = Metrics("1")
    metrics.hear(event)
    assert samples(metrics.render(present()).decode())[sample] >= 1


def present(**more):
    status = StoreStatus(
        at=NOON, queues=Queues(**{"at": NOON, "messages": {}, "deliveries": {}, "replies": {}, **more})
    )
    return Present(status=status, health=Health(ok=True, at=NOON, proved_write_ms=3))


def rendered(shown, wal_bytes=None):
    return samples(Metrics("1", lambda: wal_bytes).render(shown).decode())


def test_what_waits_is_shown_with_its_age():
    found = rendered(
        present(
            messages={
                "ada": Queue(states={"waiting": 2, "in_turn": 1}, oldest_at=Instant(NOON - 2_500)),
                "bob": Queue(states={"waiting": 1}, oldest_at=Instant(NOON - 500)),
            },
            deliveries={
                LaneKey(ADA, Provider("local")): Queue(states={"parked": 1}),
                LaneKey(ADA, Provider("honcho")): Queue(states={"scheduled": 4}, oldest_at=Instant(NOON - 9_000)),
            },
            replies={AgentOnChannel("ada", "telegram"): Queue(states={"pending": 2}, oldest_at=Instant(NOON - 1_000))},
        ),
        wal_bytes=42,
    )
    ada = ("agent", "ada")
    assert found["holdfast_messages_waiting", ada] == 3
    assert found["holdfast_queue_messages", ada, ("state", "in_turn")] == 1
    assert (found["holdfast_message_age_seconds", ada], found["holdfast_oldest_waiting_seconds",]) == (2.5, 2.5)
    assert found["holdfast_deliveries_open", ada, ("provider", "local"), ("state", "parked")] == 1
    assert found["holdfast_delivery_lag_seconds", ada, ("provider", "honcho")] == 9
    assert found["holdfast_delivery_lag_seconds", ada, ("provider", "local")] == 0
    assert found["holdfast_replies_open", ada, ("channel", "telegram"), ("state", "pending")] == 2
    assert found["holdfast_reply_lag_seconds", ada, ("channel", "telegram")] == 1
    assert found["holdfast_wal_bytes",] == 42
    assert found["holdfast_proved_write_seconds",] == 0.003


def test_components_and_needs_are_shown():
    bot = ChannelStatus(agent=ADA, channel="telegram", state=ConnectionState.UP, since=NOON)
    model = ComponentStatus(
        kind=ComponentKind.MODEL, agent=ADA, name="sonnet", state=ConnectionState.DOWN, since=NOON, attempts=3
    )
    unused = replace(model, name="haiku", state=ConnectionState.UNKNOWN, attempts=0)
    shown = replace(present(), components=(bot.component, model, unused))
    shown = replace(shown, status=replace(shown.status, needs=component_needs(shown.components)))
    found = rendered(shown)
    ada = ("agent", "ada")
    assert found["holdfast_channel_up", ada, ("channel", "telegram")] == 1
    assert found["holdfast_component_up", ada, ("kind", "channel"), ("name", "telegram")] == 1
    assert found["holdfast_component_up", ada, ("kind", "model"), ("name", "sonnet")] == 0
    assert found["holdfast_component_failures", ada, ("kind", "model"), ("name", "sonnet")] == 3
    assert ("holdfast_component_up", ada, ("kind", "model"), ("name", "haiku")) not in found
    assert found["holdfast_needs", ("kind", "model"), ("urgency", "mends itself")] == 1


def test_the_store_is_shown():
    measures = StoreMeasures()
    for calls in (1, 1, 300):
        measures.commits.append((calls, 0.001))
    found = rendered(replace(present(), measures=measures, free_bytes=7, sample_holes=2))
    assert found["holdfast_store_batch_calls_bucket", ("le", "1")] == 2
    assert found["holdfast_store_batch_calls_bucket", ("le", "+Inf")] == 3
    assert found["holdfast_store_batch_calls_sum",] == 302
    assert found["holdfast_store_commit_seconds_count",] == 3
    assert (found["holdfast_disk_free_bytes",], found["holdfast_sample_holes",]) == (7, 2)


def test_requests_to_models_and_tool_calls_have_durations_tokens_and_cost():
    metrics = Metrics("1")
    asked = {"agent": "ada", "kind": "model", "name": "sonnet", "outcome": "answered", "duration_ms": 700}
    metrics.hear(Event(name="turn.activity", fields={**asked, "tokens_in": 812, "tokens_out": 40}))
    metrics.hear(Event(name="turn.activity", fields={**asked, "outcome": "failed", "duration_ms": 90_000}))
    ran = {"agent": "ada", "kind": "tool", "name": "look", "outcome": "ok", "duration_ms": 20}
    metrics.hear(Event(name="turn.activity", fields=ran))
    paid = {"agent": "ada", "model": "sonnet", "task": "reply", "cost_micros": 2_500}
    metrics.hear(Event(name="model.paid", fields=paid))
    found = samples(metrics.render(present()).decode())
    named = (("agent", "ada"), ("name", "sonnet"))
    assert found["holdfast_model_seconds_bucket", named[0], ("le", "1.0"), named[1]] == 1
    assert found["holdfast_model_seconds_sum", *named] == 90.7
    assert found["holdfast_model_requests_total", *named, ("outcome", "failed")] == 1
    assert found["holdfast_tokens_total", named[0], ("direction", "in"), named[1]] == 812
    assert found["holdfast_tool_calls_total", ("agent", "ada"), ("name", "look"), ("outcome", "ok")] == 1
    assert found["holdfast_tool_seconds_count", ("agent", "ada"), ("name", "look")] == 1
    assert found["holdfast_cost_dollars_total", ("agent", "ada"), ("model", "sonnet"), ("task", "reply")] == 0.0025


def test_the_values_of_a_label_are_bounded():
    metrics = Metrics("1")
    for n in range(VALUES_MAX + 9):
        metrics.hear(Event(name="turn.answered", fields={"agent": f"agent{n}"}))
    found = samples(metrics.render(present()).decode())
    turns = {key: count for key, count in found.items() if key[0] == "holdfast_turns_total"}
    assert len(turns) == VALUES_MAX + 1
    assert turns["holdfast_turns_total", ("agent", "other"), ("outcome", "answered")] == 9


async def test_a_paid_answer_is_counted_with_its_cost(tmp_path):
    model = ScriptedModel(emits(ModelAnswer(text="hi", model="sonnet", cost_micros=1_500)))
    async with serve(tmp_path, model=model) as live:
        await live.runtime.ask("c", "hello")
        found = samples((await live.get("/metrics")).text)
    assert found["holdfast_cost_dollars_total", ("agent", "main"), ("model", "sonnet"), ("task", "reply")] == 0.0015
    assert found["holdfast_model_requests_total", ("agent", "main"), ("name", "sonnet"), ("outcome", "answered")] == 1
    assert found["holdfast_component_up", ("agent", "main"), ("kind", "model"), ("name", model.name)] == 1
    assert found["holdfast_store_commit_seconds_count",] > 0


async def test_a_scrape_asks_the_store_as_often_however_much_waits(tmp_path):
    async with serve(tmp_path) as live:
        counts = []
        for more in (0, 9):
            for n in range(more):
                await live.say("hello", chat=f"{n}", id=f"{n}")
            counting = live.runtime.db = CountingDatabase(live.runtime.db)
            await live.get("/metrics")
            counts.append(counting.counted.statement_count)
            live.runtime.db = counting.inner
    assert counts[0] == counts[1]
    assert counts[0] <= STATEMENTS_MAX
