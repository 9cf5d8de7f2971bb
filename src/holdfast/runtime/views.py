"""What a running Holdfast answers to its callers."""

from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.turns.context import ModelMessage


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. `restarted` says that the pieces before it are void."""

    text: str
    restarted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Well means that a real write succeeded just now."""

    ok: bool
    at: Instant
    proved_write_ms: int | None = None
    code: str | None = None
    why: str | None = None
    wal_bytes: int | None = None  # of the log beside the database; one that grows and grows is not moved into it


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model would be sent now; `covers_through` is the last entry that the summary stands for."""

    messages: tuple[ModelMessage, ...]
    covers_through: int
    tokens: int  # estimated, corrected by what the model reported for this session
