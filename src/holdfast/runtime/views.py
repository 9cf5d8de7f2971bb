"""Views: values that the runtime returns to its callers."""

from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.turns.context import ModelMessage


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. `restarted` voids all earlier pieces."""

    text: str
    restarted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The result of a health check; `ok` requires a recent real write."""

    ok: bool
    at: Instant
    proved_write_ms: int | None = None
    code: str | None = None
    why: str | None = None
    wal_bytes: int | None = None  # size of the WAL; steady growth means that checkpoints fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The messages a model would receive now; `covers_through` is the last entry that the summary covers."""

    messages: tuple[ModelMessage, ...]
    covers_through: int
    tokens: int  # an estimate, corrected by the model's reported usage for this session
