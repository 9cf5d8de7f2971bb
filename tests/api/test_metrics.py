"""Metrics count what happens, and no chat is a label."""

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from holdfast.api.metrics import Metrics, Present
from holdfast.kernel.ids import Instant
from holdfast.kernel.notifier import Event
from holdfast.runtime.views import Health
from holdfast.store.upkeep_sql import Gauges
from tests.support.live import TOKEN, serve


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
    assert found["holdfast_turns_total", ("outcome", "answered")] == 1
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
        (Event(name="turn.interrupted"), ("holdfast_turns_total", ("outcome", "interrupted"))),
        (
            Event(name="message.observed", messages=("a",), fields={"held": "loop"}),
            ("holdfast_messages_total", ("outcome", "held")),
        ),
        (
            Event(name="delivery.settled", fields={"provider": "local", "state": "delivered"}),
            ("holdfast_deliveries_total", ("provider", "local"), ("state", "delivered")),
        ),
        (
            Event(name="reply.settled", fields={"channel": "telegram", "state": "uncertain"}),
            ("holdfast_replies_total", ("channel", "telegram"), ("state", "uncertain")),
        ),
        (Event(name="compress.done", fields={"outcome": "done"}), ("holdfast_compressions_total", ("outcome", "done"))),
    ],
)
def test_each_event_counts_where_it_belongs(event, sample):
    metrics = Metrics("1")
    metrics.hear(event)
    assert samples(metrics.render(present()).decode())[sample] >= 1


def present(channels=None, **more):
    empty: dict[str, Any] = {"messages_waiting": {}, "oldest_ready_at": None, "deliveries": {}, "replies": {}}
    gauges = Gauges(at=Instant(10_000), **{**empty, **more})
    return Present(gauges, Health(ok=True, at=Instant(0)), channels or {})


def test_what_waits_is_shown_with_its_age():
    shown = present(
        channels={("ada", "telegram"): True, ("bob", "slack"): False},
        messages_waiting={"ada": 3},
        oldest_ready_at=Instant(7_500),
        deliveries={("local", "parked"): 1},
        replies={("telegram", "pending"): 2},
    )
    found = samples(Metrics("1", lambda: 42).render(shown).decode())
    assert found["holdfast_messages_waiting", ("agent", "ada")] == 3
    assert found["holdfast_oldest_waiting_seconds",] == 2.5
    assert found["holdfast_deliveries_open", ("provider", "local"), ("state", "parked")] == 1
    assert found["holdfast_replies_open", ("channel", "telegram"), ("state", "pending")] == 2
    assert found["holdfast_channel_up", ("agent", "ada"), ("channel", "telegram")] == 1
    assert found["holdfast_channel_up", ("agent", "bob"), ("channel", "slack")] == 0
    assert found["holdfast_wal_bytes",] == 42
