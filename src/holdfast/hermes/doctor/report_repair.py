"""The result of a repair for programs (JSON) and for people (text)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from holdfast.hermes.doctor.finding import Severity
from holdfast.hermes.doctor.repair import RepairResult
from holdfast.hermes.doctor.report import finding_view
from holdfast.hermes.doctor.schema import NEWEST, RELEASES


def backup_name(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("holdfast-repair-%Y%m%dT%H%M%SZ")


def repair_view(result: RepairResult) -> dict[str, Any]:
    return {
        "place": result.place or None,
        "backup": result.backup or None,
        "applied": [finding_view(one) for one in result.applied],
        "changes": list(result.diff),
        "silent": result.after.is_silent,
        "left": [finding_view(one) for one in result.after.findings if one.severity is not Severity.INFO],
        "migrates": _migration(result) or None,
    }


def repair_text(result: RepairResult) -> Iterator[str]:
    """The lines for people: the differences first, then where the result is, then what is left."""
    yield from (f"{one.kind.code}: {one.what}" for one in result.applied)
    yield from result.diff
    if not result.diff:
        yield "Nothing had to be changed."
    elif not result.place:
        yield f"{len(result.diff)} changes; this was a dry run, and nothing was changed."
    else:
        yield f"{len(result.diff)} changes in {result.place}."
    if result.backup:
        yield f"The files as they were: {result.backup}"
    for one in result.after.findings:
        if one.severity is not Severity.INFO:
            yield f"Left: {one.kind.code}: {one.what} [{one.certainty.value}]. {one.repair}"
    if warning := _migration(result):
        yield warning


def _migration(result: RepairResult) -> str:
    """What Hermes itself will change when it opens the database."""
    records = result.after.records
    if records is None or records.schema >= NEWEST:
        return ""
    return (
        f"Note: the database has schema {records.schema} (Hermes {RELEASES[records.schema]}). A newer Hermes changes "
        "it on opening: it adds columns and tables, and removes one of two equal titles."
    )
