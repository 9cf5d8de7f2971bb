"""The examination for programs (JSON) and for people (text)."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from holdfast.hermes.doctor.examination import Examination
from holdfast.hermes.doctor.finding import FindingEvidence, HermesFinding, Severity
from holdfast.hermes.doctor.schema import RELEASES

LINES_MAX = 6  # of each kind of evidence in the text; JSON and HTML have all of it
MARKS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "info"}


def examination_view(examined: Examination) -> dict[str, Any]:
    """The value that `--json` prints."""
    records = examined.records
    counts = Counter(one.severity.value for one in examined.findings)
    return {
        "home": examined.home,
        "schema": records.schema if records else None,
        "hermes": RELEASES[records.schema] if records else None,
        "sessions": len(records.sessions) if records else 0,
        "messages": len(records.messages) if records else 0,
        "compressions_logged": len(examined.story.runs),
        "counts": {level.value: counts.get(level.value, 0) for level in Severity},
        "silent": examined.is_silent,
        "findings": [finding_view(one) for one in examined.findings],
        "unreadable": list(examined.files.unreadable),
    }


def finding_view(one: HermesFinding) -> dict[str, Any]:
    evidence = one.evidence
    return {
        "kind": one.kind.code,
        "title": one.kind.title,
        "severity": one.severity.value,
        "certainty": one.certainty.value,
        "anomaly": one.anomaly or None,
        "what": one.what,
        "sessions": list(one.sessions),
        "begins": one.begins or None,
        "ends": one.ends or None,
        "evidence": {"rows": list(evidence.rows), "log": list(evidence.lines), "files": list(evidence.files)},
        "means": one.kind.means,
        "repair": one.repair,
        "repaired_by_command": one.is_repaired,
    }


def headline(examined: Examination) -> str:
    """One sentence about the whole home."""
    counts = Counter(one.severity for one in examined.findings)
    if examined.is_silent:
        return "Nothing is wrong." + (f" {counts[Severity.INFO]} notes below." if counts[Severity.INFO] else "")
    repaired = sum(one.is_repaired for one in examined.findings)
    return (
        f"{counts[Severity.ERROR]} errors, {counts[Severity.WARNING]} warnings, {counts[Severity.INFO]} notes; "
        f"`holdfast hermes repair` repairs {repaired}."
    )


def about_home(examined: Examination) -> str:
    records = examined.records
    if records is None:
        return f"Log only: {len(examined.story.runs)} compressions."
    return (
        f"{examined.home}: Hermes {RELEASES[records.schema]} (schema {records.schema}), "
        f"{len(records.sessions)} sessions, {len(records.messages)} messages, "
        f"{len(examined.story.runs)} compressions in the logs."
    )


def examination_text(examined: Examination) -> Iterator[str]:
    """The lines for people."""
    yield about_home(examined)
    yield headline(examined)
    for one in examined.findings:
        yield ""
        yield from _finding_text(one)
    for reason in examined.files.unreadable:
        yield f"\nSkipped: {reason}"


def _finding_text(one: HermesFinding) -> Iterator[str]:
    letter = f" (anomaly {one.anomaly})" if one.anomaly else ""
    yield f"{MARKS[one.severity]} {one.kind.code}{letter}: {one.kind.title} [{one.certainty.value}]"
    span = f" ({one.begins}{f' to {one.ends}' if one.ends else ''})" if one.begins else ""
    yield f"  {one.what}{span}"
    yield from (f"    {line}" for line in _evidence(one.evidence))
    yield f"  meaning: {one.kind.means}"
    yield f"  repair:  {one.repair}"


def _evidence(evidence: FindingEvidence) -> Iterator[str]:
    for lines in (evidence.rows, evidence.lines, evidence.files):
        yield from lines[:LINES_MAX]
        if len(lines) > LINES_MAX:
            yield f"... and {len(lines) - LINES_MAX} more (--json shows all)"
