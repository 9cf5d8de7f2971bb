"""The JSON shapes of the audit."""

from collections.abc import Callable

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import each, optional, view_of
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
