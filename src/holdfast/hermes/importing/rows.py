"""Rows of Hermes' history: what one message row holds, whichever release or file it comes from.

Rule 1: a row is never changed here; text is decoded, and characters that no store can keep are replaced.
Rule 2: `identity` is equal for a message and the copy that a compression made of it: Hermes strips outer blanks, may
        shorten the result of a tool and gives copies new times, so none of these count.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from holdfast.hermes.doctor.summary_text import is_summary
from holdfast.turns.journal import ToolCall, storable

CONTENT_IS_JSON = "\x00json:"  # before content that is a list of parts
MERGED_MARK = "[END OF PRIOR CONTEXT"  # a summary that was merged into the first message after it
FILE = "file:"  # begins the key of a message that only a transcript has
SPOKEN = frozenset({"user", "assistant", "tool"})


class RowState(Enum):
    ACTIVE = "active"  # what the model was shown last
    ARCHIVED = "archived"  # replaced by a summary
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesRow:
    key: str  # unique in its session, and the same in every reading of the home
    role: str
    text: str
    at_ms: int
    state: RowState = RowState.ACTIVE
    calls: tuple[ToolCall, ...] = ()
    call: str = ""  # the call that a tool's row answers
    tool: str = ""
    observed: bool = False
    event_id: str = ""  # the platform's id of the message

    @property
    def is_spoken(self) -> bool:
        """Whether the row is part of the conversation; the others are Hermes' own records."""
        return self.role in SPOKEN

    @property
    def is_summary(self) -> bool:
        return self.role != "tool" and (is_summary(self.text) or MERGED_MARK in self.text)

    @property
    def identity(self) -> bytes:
        """Equal for a message and its copies."""
        if self.role == "tool" and self.call:
            said = self.call
        elif self.calls:
            said = " ".join(call.id for call in self.calls)
        else:
            said = self.text.strip()
        return hashlib.blake2b(f"{self.role}\0{said}".encode(), digest_size=16).digest()

    @property
    def opening(self) -> bytes:
        """Equal for a message and for one that Hermes made by joining others to it."""
        return hashlib.blake2b(self.text.strip().partition("\n\n")[0].encode(), digest_size=16).digest()

    @property
    def is_timed(self) -> bool:
        """Whether the time is the message's own; a transcript has one time for all."""
        return not self.key.startswith(FILE)


@dataclass(frozen=True, slots=True)
class CarriedRow:
    """A row as the doctor compares copies; tool results are left out of a comparison."""

    role: str
    text: str
    at: float
    is_spoken: bool
    is_undone: bool
    is_summary: bool


def carried_row(row: HermesRow) -> CarriedRow:
    text = row.text.strip()
    is_spoken = row.role in {"user", "assistant"} and bool(text) and not row.is_summary
    return CarriedRow(row.role, text, row.at_ms / 1000, is_spoken, row.state is RowState.UNDONE, row.is_summary)


def text_of_content(content: object) -> str:
    """The text of a message's content: a string, a list of parts, or Hermes' encoding of such a list."""
    if isinstance(content, str) and content.startswith(CONTENT_IS_JSON):
        try:
            content = msgspec.json.decode(content[len(CONTENT_IS_JSON) :])
        except msgspec.MsgspecError:
            return storable(str(content)[len(CONTENT_IS_JSON) :])
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    if isinstance(content, Sequence) and not isinstance(content, str):
        return storable("\n".join(filter(None, map(_part, content))))
    return storable("" if content is None else str(content))


def _part(part: object) -> str:
    if not isinstance(part, Mapping):
        return str(part)
    kind = str(part.get("type", ""))
    return str(part["text"]) if isinstance(part.get("text"), str) else f"[{kind or 'attachment'}]"


def calls_of(raw: object) -> tuple[ToolCall, ...]:
    """The tool calls of an assistant's row: a list, or its JSON. An unreadable list has no calls."""
    if isinstance(raw, str | bytes):
        try:
            raw = msgspec.json.decode(raw)
        except msgspec.MsgspecError:
            return ()
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        return ()
    return tuple(_call(n, one) for n, one in enumerate(raw) if isinstance(one, Mapping))


def _call(n: int, raw: Mapping[str, object]) -> ToolCall:
    function = raw.get("function")
    named = function if isinstance(function, Mapping) else raw
    arguments = named.get("arguments", "{}")
    written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCall(
        id=storable(str(raw.get("id") or raw.get("call_id") or f"call-{n}")),
        name=storable(str(named.get("name") or "tool")),
        arguments=storable(written),
    )
