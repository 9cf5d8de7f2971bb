"""The JSON shapes of the audit trail."""

from collections.abc import Sequence
from typing import Any

from holdfast.api.shapes.shapes import Shape
from holdfast.audit.action import Action


class ActorOut(Shape, frozen=True, kw_only=True):
    kind: str  # operator, token, principal, user, program, system or anonymous
    id: str
    label: str
    origin: str  # an HTTP client, a command-line process, or a chat


class ActionOut(Shape, frozen=True, kw_only=True):
    """One privileged act, or an attempt that was refused with `code`."""

    n: int
    at: int
    verb: str
    actor: ActorOut
    subject: str
    outcome: str
    code: str | None
    count: int  # attempts of the actor within the hour of the row; 1 unless refused
    detail: dict[str, Any]  # ids, numbers and codes
    digest: str  # over this row and the digest of the previous one


class ActionList(Shape, frozen=True, kw_only=True):
    """Newest first; `next` is the value of `after` for the next page."""

    actions: list[ActionOut]
    next: int | None


def action_view(action: Action) -> ActionOut:
    by = action.by
    return ActionOut(
        n=action.n,
        at=action.at,
        verb=action.verb,
        actor=ActorOut(kind=by.kind.value, id=by.id, label=by.label, origin=by.origin),
        subject=action.subject,
        outcome=action.outcome.value,
        code=action.code or None,
        count=action.count,
        detail=dict(action.detail),
        digest=action.digest.hex(),
    )


def actions_view(found: Sequence[Action], limit: int) -> ActionList:
    return ActionList(
        actions=[action_view(one) for one in found], next=found[-1].n if found and len(found) == limit else None
    )
