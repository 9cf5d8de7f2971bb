"""The JSON shapes of finalisations. The extracted facts are in memory, not here."""

from collections.abc import Sequence

from holdfast.api.shapes.shapes import Shape
from holdfast.sessions.finalisation import Finalisation


class FinalisationOut(Shape, frozen=True, kw_only=True):
    """The end of one epoch of a session, and the progress of the extraction from it."""

    id: str
    session: str
    epoch: int
    agent: str
    cause: str  # new, idle, daily
    state: str  # begun, asked, applied, closed, failed, cancelled
    outcome: str  # running, done, nothing (to extract from), failed, cancelled
    attempts: int
    from_seq: int
    through_seq: int  # below from_seq if the epoch is empty
    model: str | None  # the model that was called
    reason: str | None  # why the newest attempt failed
    started_at: int
    due_at: int | None  # the next attempt, while it is running
    ended_at: int | None


class FinalisationsOut(Shape, frozen=True, kw_only=True):
    """Newest first."""

    finalisations: list[FinalisationOut]


def finalisation_view(one: Finalisation) -> FinalisationOut:
    return FinalisationOut(
        id=one.origin,
        session=one.session,
        epoch=one.epoch,
        agent=one.agent,
        cause=one.cause,
        state=one.step.value,
        outcome=one.outcome,
        attempts=one.attempts,
        from_seq=one.from_seq,
        through_seq=one.through_seq,
        model=one.model or None,
        reason=one.reason or None,
        started_at=one.started_at,
        due_at=None if one.ended else one.due_at,
        ended_at=one.ended_at,
    )


def finalisations_view(found: Sequence[Finalisation]) -> FinalisationsOut:
    return FinalisationsOut(finalisations=[finalisation_view(one) for one in found])
