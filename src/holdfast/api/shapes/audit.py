"""The JSON shapes of the audit."""

from holdfast.api.shapes.shapes import Shape
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


def audit_view(report: Report) -> AuditReport:
    return AuditReport(
        ok=report.ok,
        sessions=report.sessions,
        entries=report.entries,
        operations=report.operations,
        summaries=report.summaries,
        log_lines=report.log_lines,
        checks=[
            AuditCheck(name=one.name, promise=one.promise, examined=one.examined, contradictions=one.contradictions)
            for one in report.checks
        ],
        first_contradiction=AuditContradiction(
            check=report.first.check, session=report.first.session, what=report.first.what
        )
        if report.first
        else None,
    )
