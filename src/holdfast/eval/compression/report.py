"""The report of a measurement, and its comparison with a baseline, which is an earlier report.

A report has no times, ids or user text: the same seed and the same summariser give the same bytes.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.eval.compression.facts import Fact
from holdfast.eval.compression.retention import Retention
from holdfast.kernel.errors import InvalidInput

LOST_SHOWN_MAX = 20
# A deterministic summariser gets no tolerance. A language model answers differently each time, so a small loss is not
# significant; the tolerance is about two standard errors of a share near 0.9 of 240 facts.
TOLERANCES = {"practice": 0.0}
TOLERANCE = 0.04
IN_CONTEXT = frozenset({Retention.TAIL, Retention.SUMMARY})
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFinding:
    """The state of one fact after one compression."""

    fact: Fact
    turn: int
    compressions: int
    summaries: int  # the number of summaries since its turn; 0 while its turn is in the tail
    kept: Retention
    answered: bool | None = None  # by the model, if one was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreShare:
    asked: int
    kept: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionRound:
    """The scores after a number of compressions."""

    compressions: int
    asked: int
    kept: int  # in summary and tail
    score: float
    in_tail: int
    in_summary: int
    stale: int
    lost: int
    tokens_before: int
    tokens_after: int
    summary_tokens: int
    only_by_recall: int | None = None
    score_with_recall: float | None = None
    answered: float | None = None  # the share of correct answers of the model
    failure: str | None = None  # why the compression failed; then no fact counts as kept


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceScore(ScoreShare):
    summaries: int  # the number of summaries since the fact


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFact:
    """A fact that is lost after the last compression. Facts are invented, so they may be shown."""

    kind: str
    turn: int
    question: str
    value: str
    how: str  # lost, stale


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionReport:
    model: str
    seed: int
    turns: int
    facts: int
    compressions: int
    context_tokens: int
    summary_tokens_max: int
    score: float  # the mean over the rounds
    rounds: tuple[CompressionRound, ...]
    kinds: dict[str, ScoreShare]
    distances: tuple[DistanceScore, ...]
    recall: str  # off, or the provider's name and version
    gone: tuple[LostFact, ...] = ()

    @property
    def failures(self) -> list[str]:
        return [f"compression {one.compressions}: {one.failure}" for one in self.rounds if one.failure]


def share(findings: Sequence[FactFinding]) -> ScoreShare:
    kept = sum(finding.kept in IN_CONTEXT for finding in findings)
    return ScoreShare(asked=len(findings), kept=kept, score=ratio(kept, len(findings)))


def ratio(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def by(findings: Iterable[FactFinding], key: Callable[[FactFinding], K]) -> dict[K, list[FactFinding]]:
    groups: dict[K, list[FactFinding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    return groups


def kinds_of(findings: Sequence[FactFinding]) -> dict[str, ScoreShare]:
    return {kind: share(found) for kind, found in by(findings, lambda one: one.fact.kind.value).items()}


def distances_of(findings: Sequence[FactFinding]) -> tuple[DistanceScore, ...]:
    groups = sorted(by(findings, lambda one: one.summaries).items())
    told = [(summaries, share(found)) for summaries, found in groups]
    return tuple(DistanceScore(summaries=n, asked=one.asked, kept=one.kept, score=one.score) for n, one in told)


def gone_of(findings: Sequence[FactFinding]) -> tuple[LostFact, ...]:
    """The first facts that are lost after the last round."""
    last = max((finding.compressions for finding in findings), default=0)
    missing = [one for one in findings if one.compressions == last and one.kept in {Retention.LOST, Retention.STALE}]
    return tuple(
        LostFact(
            kind=one.fact.kind.value,
            turn=one.turn,
            question=one.fact.question,
            value=one.fact.value,
            how=one.kept.value,
        )
        for one in missing[:LOST_SHOWN_MAX]
    )


# --- the baseline ----------------------------------------------------------------------------------------------------


def read_baseline(file: Path) -> CompressionReport:
    """A report that `--json` printed earlier. Raises `InvalidInput`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=CompressionReport)
    except OSError as error:
        raise InvalidInput(f"the baseline {file} cannot be read: {error.strerror}", file=str(file)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        what = f"the baseline {file} is not a report of `holdfast eval compression --json`: {error}"
        raise InvalidInput(what, file=str(file)) from error


def check_comparable(baseline: CompressionReport, **settings: object) -> None:
    """Scores of different conversations cannot be compared. Raises `InvalidInput`."""
    for name, ours in settings.items():
        theirs = getattr(baseline, name)
        if ours != theirs:
            fix = f"set --{name} {theirs}, or measure another baseline"
            raise InvalidInput(f"the baseline was measured with {name} {theirs}, and this is {name} {ours}: {fix}")


def fallen(report: CompressionReport, baseline: CompressionReport) -> list[str]:
    """A sentence for each score below the baseline: the total, by number of compressions, by kind."""
    allowed = TOLERANCES.get(report.model, TOLERANCE)
    pairs = [("the score", report.score, baseline.score)]
    before = {one.compressions: one.score for one in baseline.rounds}
    pairs += [
        (f"the score after {one.compressions} compressions", one.score, before[one.compressions])
        for one in report.rounds
        if one.compressions in before
    ]
    pairs += [
        (f"the score of the kind {kind}", one.score, baseline.kinds[kind].score)
        for kind, one in report.kinds.items()
        if kind in baseline.kinds
    ]
    return [f"{what} fell from {was:.1%} to {now:.1%}" for what, now, was in pairs if now < was - allowed]
