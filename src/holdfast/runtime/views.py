"""Views: values that the runtime returns to its callers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from holdfast.kernel.ids import Instant
from holdfast.sessions.compression import Thresholds
from holdfast.turns.context import ModelMessage


class SendOptions(TypedDict, total=False):
    """How a program sends a message."""

    agent: str | None  # the default agent unless set
    sender: str | None  # the chat unless set
    id: str | None  # the sender's own id of the message; repeating it is safe
    directory: Path | str | None  # where the message was written; some providers name their sessions after it
    trusted: bool  # exempt from the chat's rate limit


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. `restarted` voids all earlier pieces."""

    text: str
    restarted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The result of a health check; `ok` requires a recent real write, and a lease if the process serves."""

    ok: bool
    at: Instant
    proved_write_ms: int | None = None
    code: str | None = None
    why: str | None = None
    seen_at: Instant | None = None  # the newest sign of life of the process that serves
    wal_bytes: int | None = None  # size of the WAL; steady growth means that checkpoints fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The messages a model would receive now; `covers_through` is the last entry that the summary covers."""

    messages: tuple[ModelMessage, ...]
    covers_through: int
    tokens: int  # an estimate, corrected by the model's reported usage for this session
    parts: Mapping[str, int] = field(default_factory=dict)  # estimated shares of them, in the order the model reads
    thresholds: Thresholds = field(default_factory=Thresholds)
