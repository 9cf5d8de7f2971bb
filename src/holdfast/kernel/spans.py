"""Spans for an OpenTelemetry tracer. Without a configured SDK they cost next to nothing.

Rule 1: names and attributes follow the gen_ai conventions where these define one. They define none for memory,
        compression and durable mailboxes; Holdfast's own names begin with `holdfast.`.
Rule 2: attributes are ids, counts and durations, never message text or the text of an error.
Rule 3: every span within a turn names the agent and the conversation, as the turn's own span does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from opentelemetry import trace

Value: TypeAlias = str | int | float | bool

TURN = "invoke_agent"  # one attempt at a turn, from its messages to its outcome
MODEL = "chat"  # one question to a model, until its answer is whole
TOOL = "execute_tool"  # one call of a tool
RECALL = "retrieval"  # memory asked on behalf of a turn
COMPRESS = "holdfast.compress"  # one compression, from its beginning to its outcome
DELIVER = "holdfast.deliver"  # one call of a memory provider with what is due on some lanes
POST = "holdfast.post"  # one piece of a reply on its way to a platform
FINISH = "holdfast.finish"  # the end of one epoch: what memory should keep of it

CALLS = frozenset({MODEL})  # calls to other services, usually over a network
INHERITED = ("gen_ai_agent_name", "gen_ai_conversation_id")
_around: ContextVar[dict[str, Value]] = ContextVar("_around")  # attributes that inner spans inherit

_tracer = trace.get_tracer("holdfast")  # uses the provider that is configured later


class Span:
    """An open span."""

    def __init__(self, made: trace.Span) -> None:
        self._made = made

    def note(self, **attributes: Value | None) -> None:
        """Add attributes, with `_` for `.` in their names: `gen_ai_usage_input_tokens=7`."""
        for name, value in attributes.items() if self._made.is_recording() else ():
            if value is not None:
                self._made.set_attribute(dotted(name), value)


NOT_RECORDED = Span(trace.INVALID_SPAN)


@contextmanager
def span(operation: str, subject: str = "", **attributes: Value | None) -> Iterator[Span]:
    """Open a span with one of the names above. An exception is recorded by its class and raised again."""
    if isinstance(_tracer, trace.ProxyTracer) and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # No SDK is configured.
        yield NOT_RECORDED
        return
    name = f"{operation} {subject}" if subject else operation
    kind = trace.SpanKind.CLIENT if operation in CALLS else trace.SpanKind.INTERNAL
    with _tracer.start_as_current_span(name, kind=kind, record_exception=False, set_status_on_exception=False) as made:
        opened = Span(made)
        if not made.is_recording():
            yield opened
            return
        if not operation.startswith("holdfast."):
            made.set_attribute("gen_ai.operation.name", operation)
        own = {name: value for name in INHERITED if (value := attributes.get(name)) is not None}
        inherited = {**_around.get({}), **own}
        opened.note(**{**inherited, **attributes})
        before = _around.set(inherited)
        try:
            yield opened
        except BaseException as error:
            made.set_status(trace.Status(trace.StatusCode.ERROR))
            made.set_attribute("error.type", getattr(error, "code", type(error).__name__))
            raise
        finally:
            _around.reset(before)


# The conventions' names of providers, where Holdfast's names differ.
_PROVIDERS = {
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
}


def provider_and_model(name: str) -> tuple[str, str]:
    """Split `openai:gpt-5.2` into provider and model. A model without a provider is its own provider."""
    provider, colon, model = name.partition(":")
    return (_PROVIDERS.get(provider, provider), model) if colon else (name, name)


# Names that contain `_` rather than `.`.
_WHOLE = ("gen_ai", "input_tokens", "output_tokens", "cache_read")


def dotted(name: str) -> str:
    """`gen_ai_usage_input_tokens` as `gen_ai.usage.input_tokens`."""
    for part in _WHOLE:
        name = name.replace(part, part.replace("_", "\0"))
    return name.replace("_", ".").replace("\0", "_")
