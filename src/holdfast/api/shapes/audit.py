"""The JSON shapes of the audit and of the audit trail."""

from collections.abc import Callable
from typing import Any

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import each, optional, or_none, page_of, view_of
from holdfast.audit.action import Action, By
from holdfast.sessions.compression_audit import Report


class AuditCheck(Shape, frozen=True, kw_only=True):
    name: str
    promise: str
    examined: int
    contradictions: int


class AuditContradiction(Shape, frozen=True, kw_only=True):
    check: str
    session: str
    what: str


class AuditReport(Shape, frozen=True, kw_only=True):
    ok: bool
    sessions: int
    entries: int
    operations: int
    summaries: int
    log_lines: int | None
    checks: list[AuditCheck]
    first_contradiction: AuditContradiction | None


audit_view: Callable[[Report], AuditReport] = view_of(
    AuditReport,
    checks=each("checks", view_of(AuditCheck)),
    first_contradiction=optional("first", view_of(AuditContradiction)),
)


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


action_view: Callable[[Action], ActionOut] = view_of(
    ActionOut,
    actor=lambda one: _actor_view(one.by),
    code=or_none("code"),
    detail=lambda one: dict(one.detail),
    digest=lambda one: one.digest.hex(),
)
_actor_view: Callable[[By], ActorOut] = view_of(ActorOut)
actions_view = page_of(ActionList, action_view)
