"""Activities: what a turn did, when it began and ended, and how. They are for people who ask later; nothing decides by
them.

Rule 1: an activity is stored by the transaction that stores its result, so it costs no transaction of its own. The
        activities of a process that dies are lost with the results that it had not stored.
Rule 2: an activity has no words of people: names of models, tools and providers, numbers and outcomes. The extract of a
        vendor's error has no text of the request (kernel/vendor_error.py).
Rule 3: the times are those of the process that did the work.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.kernel.ids import Instant
from holdfast.kernel.vendor_error import VendorError
from holdfast.turns.context import Context
from holdfast.turns.journal import Recalled, estimate_tokens

NAME_CHARS_MAX = 100
UNKNOWN_TOOL = "an unknown tool"  # a model may put anything into the name of a tool that does not exist


class ActivityKind(Enum):
    RECALL = "recall"  # memory was queried
    MODEL = "model"  # the model was asked once
    TOOL = "tool"
    COMPRESSION = "compression"  # the turn waited for a summary
    RESUMPTION = "resumption"  # another claim took the turn over


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    kind: ActivityKind
    name: str  # of the model, the tool, the memory providers or the node
    started_at: Instant
    ended_at: Instant
    outcome: str
    call: str | None = None  # the id of a tool call
    tokens_in: int | None = None
    tokens_out: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def duration_ms(self) -> int:
        return max(0, self.ended_at - self.started_at)


def context_parts(context: Context, *, instructions: str, notes: str, tools: int) -> dict[str, int]:
    """The estimated tokens of each part of a request, in the order in which the model reads them; no empty ones."""
    recall = sum(estimate_tokens(entry.text) for entry in context.open_entries if isinstance(entry.body, Recalled))
    parts = {
        "instructions": estimate_tokens(instructions) if instructions else 0,
        "tools": tools,
        "notes": estimate_tokens(notes) if notes else 0,
        "summary": context.summary.tokens if context.summary else 0,
        "conversation": context.memo.tokens,
        "recall": recall,
    }
    return {name: tokens for name, tokens in parts.items() if tokens}


def vendor_detail(vendor: VendorError, reason: str) -> dict[str, Any]:
    """The details of a failed request."""
    found = {"reason": reason, "status": vendor.status, "request_id": vendor.request_id, "code": vendor.code}
    return {name: value for name, value in (found | {"extract": vendor.extract}).items() if value}


def tool_name(name: str, known: Iterable[str]) -> str:
    return name[:NAME_CHARS_MAX] if name in known else UNKNOWN_TOOL


def providers_of(sources: Sequence[str]) -> str:
    """The providers of recalled memories, as a name."""
    return ", ".join(sorted({source.partition(":")[0] for source in sources})) or "memory"
