"""A tracer sees a whole conversation: turns, models, tools, memory, compression and replies, under OpenTelemetry's
names, and never the words of a message.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast
from holdfast.kernel import spans
from holdfast.kernel.spans import dotted, provider_and_model
from holdfast.turns.policy import AgentPolicy
from tests.inbox.test_router import Chat, start, wrote
from tests.support.fakes import ScriptedModel, calls, raises, says, soon
from tests.support.memory_runtimes import settled


@pytest.fixture
def seen(monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_tracer", provider.get_tracer("holdfast"))
    yield exporter
    provider.shutdown()


def named(exporter: InMemorySpanExporter, operation: str) -> Sequence[Any]:
    return [one for one in exporter.get_finished_spans() if one.name.split()[0] == operation]


async def weather(city: str) -> str:
    """The weather in a city."""
    return f"canary over {city}"


async def test_a_turn_is_seen_with_its_model_tool_memory_and_delivery(tmp_path, seen):
    model = ScriptedModel(calls('weather {"city": "Bergen"}'), says("rain"))
    async with holdfast.open(tmp_path, model=model, tools=[weather]) as runtime:
        await soon(runtime.ask("home", "the canary sings in Bergen"))
        await settled(runtime)
    [turn] = named(seen, spans.TURN)
    assert turn.name == "invoke_agent main"
    assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert turn.attributes["gen_ai.agent.name"] == "main"
    asked = named(seen, spans.MODEL)
    assert [one.attributes["gen_ai.request.model"] for one in asked] == ["scripted", "scripted"]
    assert {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} <= set(asked[0].attributes)
    for one in asked:
        assert (one.name, one.kind) == ("chat scripted", trace.SpanKind.CLIENT)
        assert one.attributes["gen_ai.operation.name"] == "chat"
        assert one.attributes["gen_ai.provider.name"] == "scripted"
        assert one.attributes["gen_ai.agent.name"] == "main"
        assert one.attributes["gen_ai.conversation.id"] == turn.attributes["gen_ai.conversation.id"]
    assert turn.kind is trace.SpanKind.INTERNAL
    [tool] = named(seen, spans.TOOL)
    assert (tool.name, tool.attributes["holdfast.tool.outcome"]) == ("execute_tool weather", "ok")
    for inner in (*asked, tool):
        assert inner.parent.span_id == turn.context.span_id
        assert inner.context.trace_id == turn.context.trace_id
    assert {one.attributes["holdfast.provider.name"] for one in named(seen, spans.RECALL)} == {"local"}
    assert "local" in {one.attributes["holdfast.provider.name"] for one in named(seen, spans.DELIVER)}
    assert "canary" not in "".join(one.to_json() for one in seen.get_finished_spans())


async def test_a_compression_and_the_end_of_an_epoch_are_seen(tmp_path, seen):
    async with holdfast.open(tmp_path, model=ScriptedModel(), policy=AgentPolicy(memory={})) as runtime:
        for text in ("one", "two", "three", "/compress", "/new"):
            await soon(runtime.ask("home", text))
        feed = runtime.events()
        while not named(seen, spans.FINISH):
            await soon(feed.next_within(1_000))
        feed.close()
    [compressed] = named(seen, spans.COMPRESS)
    assert "holdfast.compress.outcome" in compressed.attributes
    assert compressed.attributes["gen_ai.conversation.id"].startswith("ses_")
    summed = [one for one in named(seen, spans.MODEL) if one.attributes["holdfast.model.task"] == "summary"]
    assert {one.attributes["gen_ai.conversation.id"] for one in summed} == {
        compressed.attributes["gen_ai.conversation.id"]
    }


async def test_a_reply_on_its_way_to_a_platform_is_seen(tmp_path, seen):
    chat = Chat()
    async with await start(tmp_path, chat):
        await chat.intake.receive(wrote("the canary sings"))
        await chat.texts(1)
    [posted] = named(seen, spans.POST)
    assert posted.name == "holdfast.post telegram"
    assert posted.attributes["gen_ai.agent.name"] == "main"
    assert (posted.attributes["holdfast.reply.attempt"], posted.attributes["holdfast.reply.outcome"]) == (1, "Sent")
    assert posted.attributes["holdfast.reply.id"].startswith("rep_")
    assert "gen_ai.operation.name" not in posted.attributes
    assert "canary" not in "".join(one.to_json() for one in seen.get_finished_spans())


async def test_what_fails_is_an_error_by_its_code_and_not_by_its_words(tmp_path, seen):
    model = ScriptedModel(*[raises(ValueError("the canary"))] * 3)
    async with holdfast.open(tmp_path, model=model, policy=AgentPolicy(memory={})) as runtime:
        await soon(runtime.ask("home", "hello"))
    failed = named(seen, spans.MODEL)
    assert {one.attributes["error.type"] for one in failed} == {"model_failed"}
    assert {one.status.status_code for one in failed} == {trace.StatusCode.ERROR}
    assert "canary" not in "".join(one.to_json() for one in failed)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openai:gpt-5.2", ("openai", "gpt-5.2")),
        ("openai-chat:gpt-5.2", ("openai", "gpt-5.2")),
        ("ollama:llama3.2:1b", ("ollama", "llama3.2:1b")),
        ("google:gemini-4", ("gcp.gemini", "gemini-4")),
        ("practice", ("practice", "practice")),
    ],
)
def test_providers_are_called_as_the_conventions_call_them(name, said):
    assert provider_and_model(name) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gen_ai_usage_input_tokens", "gen_ai.usage.input_tokens"),
        ("gen_ai_usage_cache_read_input_tokens", "gen_ai.usage.cache_read.input_tokens"),
        ("gen_ai_conversation_id", "gen_ai.conversation.id"),
        ("holdfast_delivery_units", "holdfast.delivery.units"),
    ],
)
def test_attributes_are_written_as_the_conventions_write_them(name, said):
    assert dotted(name) == said
