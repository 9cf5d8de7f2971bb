"""Compression: when to summarise, which entries to cover, and which summaries are valid.

Rule 1: a summary covers a range of entries of its own session. Compression makes no new session and no copy, so the
        session keeps its id by construction.
Rule 2: only complete, committed turns are covered; the newest turns stay verbatim.
Rule 3: a summary is valid until a later undo reaches into the entries that it covers. Validity is derived, never
        stored, so a branch and its parent can disagree about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.ids import Instant, OperationId, SessionId
from holdfast.turns.journal import Entry, estimate_tokens

COMPRESS = "compress"  # the operation's kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Fractions of the model's window. Between soft and hard, a summary is prepared while turns continue."""

    context_tokens: int = 128_000
    soft: float = 0.6
    hard: float = 0.85
    keep: float = 0.25  # the part of the window that stays verbatim
    keep_turns_min: int = 1
    summary: float = 0.2  # the largest part of the window that a summary may take
    summariser_wait_ms: int = 120_000
    failed_pause_ms: int = 60_000  # pause of background compression after a failed attempt


class Pressure(Enum):
    NONE = "none"
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A cumulative summary: with its base it replaces the entries 1..covers_through."""

    session: SessionId  # the session of its row; an ancestor's for an inherited summary
    n: int
    base_n: int
    covers_from: int
    covers_through: int
    head_seq: int  # the newest entry when it was made; only later undos can void it
    text: str
    model: str
    tokens: int
    operation: OperationId
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDraft:
    """A summary before its commit, which is a compare-and-set on its inputs."""

    base_n: int
    undo_count: int
    covers_from: int
    covers_through: int
    head_seq: int
    text: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A record in the audit trail. Open operations are unique by (session, kind) and belong to a node."""

    id: OperationId
    kind: str
    session: SessionId
    owner: str
    fence: int
    started_at: Instant
    ended_at: Instant | None = None
    outcome: str | None = None
    detail: dict[str, object] | None = None


def snapshot_name(session: SessionId, n: int) -> str:
    return f"{session}.snapshot.{n}"


def choose_cut(
    tail: Sequence[Entry], thresholds: Thresholds, *, ratio: float = 1.0, forced: bool = False, in_turn: bool = False
) -> int | None:
    """The last entry to cover, or None if no entry may be covered.

    `tail` is the effective, committed journal after the newest summary. The cut falls between turns: the kept entries
    fit the share `keep`, but at least `keep_turns_min` turns stay regardless of their size. A forced compression keeps
    only those turns. If a turn is open (`in_turn`), it stays verbatim anyway, so a forced compression covers every
    entry before it.
    """
    if forced and in_turn:
        return tail[-1].seq if tail else None
    first_kept = _first_kept_turn(tail, thresholds, 0.0 if forced else thresholds.keep, ratio)
    if first_kept is None:
        return tail[-2].seq if len(tail) > 1 else None  # only observed messages: the newest one stays
    kept_from = next(entry.seq for entry in tail if entry.turn == first_kept)
    earlier = [entry.seq for entry in tail if entry.seq < kept_from]
    return earlier[-1] if earlier else None


def _first_kept_turn(tail: Sequence[Entry], thresholds: Thresholds, keep: float, ratio: float) -> int | None:
    """The oldest turn to keep. Every entry from its first one on stays, including messages between turns."""
    kept_from: dict[int, float] = {}  # by turn, newest first
    kept_tokens = 0.0
    for entry in reversed(tail):
        kept_tokens += entry.tokens * ratio
        if entry.turn:
            kept_from[entry.turn] = kept_tokens
    first_kept = None
    for position, (turn, tokens) in enumerate(kept_from.items()):
        if position >= max(1, thresholds.keep_turns_min) and tokens > thresholds.context_tokens * keep:
            break
        first_kept = turn
    return first_kept


def summary_tokens_max(thresholds: Thresholds) -> int:
    return max(64, int(thresholds.context_tokens * thresholds.summary))


def fault_of(text: str, thresholds: Thresholds) -> str | None:
    """The reason why a summariser's answer cannot be used; None if it can."""
    if not text.strip():
        return "the summariser answered nothing"
    tokens, most = estimate_tokens(text), summary_tokens_max(thresholds)
    if tokens > most:
        return f"the summary has about {tokens} tokens; at most {most} are useful"
    return None


@dataclass(frozen=True, slots=True)
class Busy:
    """An operation of the kind is open for the session."""

    operation: OperationId
