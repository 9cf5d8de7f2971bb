"""The JSON shapes of finalisations. The extracted facts are in memory, not here."""

from collections.abc import Callable

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import list_of, or_none, view_of
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


finalisation_view: Callable[[Finalisation], FinalisationOut] = view_of(
    FinalisationOut,
    id="origin",
    state="step",
    model=or_none("model"),
    reason=or_none("reason"),
    due_at=lambda one: None if one.ended else one.due_at,
)
finalisations_view = list_of(FinalisationsOut, finalisation_view)
