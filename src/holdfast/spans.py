"""Spans: what an OpenTelemetry tracer sees. Without an SDK configured they cost next to nothing.

Rule 1: names and attributes are those of the gen_ai conventions wherever these have one. They have none for memory,
        compression and durable mailboxes; what is ours begins with `holdfast.`.
Rule 2: ids, counts and durations; people's words are never an attribute, and neither is an error's text.
"""

from collections.abc import Iterator
from contextlib import contextmanager
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
    with _tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as made:
        opened = Span(made)
        if made.is_recording():
            if not operation.startswith("holdfast."):
                made.set_attribute("gen_ai.operation.name", operation)
            opened.note(**attributes)
        try:
            yield opened
        except BaseException as error:
            made.set_status(trace.Status(trace.StatusCode.ERROR))
            made.set_attribute("error.type", getattr(error, "code", type(error).__name__))
            raise


# Names whose words are joined by `_` rather than `.`.
_WHOLE = ("gen_ai", "input_tokens", "output_tokens", "cache_read")


def dotted(name: str) -> str:
    """`gen_ai_usage_input_tokens` as `gen_ai.usage.input_tokens`."""
    for part in _WHOLE:
        name = name.replace(part, part.replace("_", "\0"))
    return name.replace("_", ".").replace("\0", "_")
