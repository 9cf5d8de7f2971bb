"""Spans: what an OpenTelemetry tracer sees. Without an SDK configured they cost next to nothing.

Rule 1: names and attributes are those of the gen_ai conventions wherever these have one. They have none for memory,
        compression and durable mailboxes; what is ours begins with `holdfast.`.
Rule 2: ids, counts and durations; people's words are never an attribute, and neither is an error's text.
Rule 3: what happens on behalf of a turn says for which agent and in which conversation, as the turn's own span does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from opentelemetry import trace

Value: TypeAlias = str | int | float | bool

TURN = "invoke_agent"
MODEL = "chat"
TOOL = "execute_tool"
RECALL = "retrieval"
COMPRESS = "holdfast.compress"
DELIVER = "holdfast.deliver"
POST = "holdfast.post"
FINISH = "holdfast.finish"
SPANS = {
    TURN: "one attempt at a turn, from its messages to its outcome",
    MODEL: "one question to a model, until its answer is whole",
    TOOL: "one call of a tool",
    RECALL: "memory asked on behalf of a turn",
    COMPRESS: "one compression, from its beginning to its outcome",
    DELIVER: "one call of a memory provider with what is due on some lanes",
    POST: "one piece of a reply on its way to a platform",
    FINISH: "the end of one epoch: what memory should keep of it",
}

CALLS = frozenset({MODEL})  # asked of somebody else, over a network as a rule
INHERITED = ("gen_ai_agent_name", "gen_ai_conversation_id")
_around: ContextVar[dict[str, Value]] = ContextVar("_around")  # what spans inside this one inherit

_tracer = trace.get_tracer("holdfast")  # follows whatever provider is configured later


class Span:
    """What may still be said about a span while it is open."""

    def __init__(self, made: trace.Span) -> None:
        self._made = made

    def note(self, **attributes: Value | None) -> None:
        """Attributes by their names, with `_` for `.`: `gen_ai_usage_input_tokens=7`."""
        for name, value in attributes.items():
            if value is not None:
                self._made.set_attribute(dotted(name), value)


@contextmanager
def span(operation: str, subject: str = "", **attributes: Value | None) -> Iterator[Span]:
    """A span of one of SPANS. Whatever is raised inside is noted by its class and passed on."""
    name = f"{operation} {subject}" if subject else operation
    kind = trace.SpanKind.CLIENT if operation in CALLS else trace.SpanKind.INTERNAL
    with _tracer.start_as_current_span(name, kind=kind, record_exception=False, set_status_on_exception=False) as made:
        opened = Span(made)
        if not made.is_recording():
            yield opened
            return
        if not operation.startswith("holdfast."):
            made.set_attribute("gen_ai.operation.name", operation)
        inherited = _inherited(attributes)
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


def _inherited(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    """The agent and the conversation: what is said here, else what the span around said."""
    said = {name: value for name in INHERITED if (value := attributes.get(name)) is not None}
    return {**_around.get({}), **said}


# What the conventions call a provider, where our word for it is another.
_PROVIDERS = {
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
}


def provider_and_model(name: str) -> tuple[str, str]:
    """`openai:gpt-5.2` as the conventions say it, in two parts. A model without a provider is its own."""
    provider, colon, model = name.partition(":")
    return (_PROVIDERS.get(provider, provider), model) if colon else (name, name)


# Names whose words are joined by `_` rather than `.`.
_WHOLE = ("gen_ai", "input_tokens", "output_tokens", "cache_read")


def dotted(name: str) -> str:
    """`gen_ai_usage_input_tokens` as `gen_ai.usage.input_tokens`."""
    for part in _WHOLE:
        name = name.replace(part, part.replace("_", "\0"))
    return name.replace("_", ".").replace("\0", "_")
