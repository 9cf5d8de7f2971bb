"""Rows that repeat a whole stretch of the same session: 0.19 writes the transcript again before it rotates."""

from collections.abc import Mapping, Sequence

from holdfast.hermes.doctor.records import SPOKEN, ExaminedMessage

REPEATED_MIN = 2


def repeated_rows(rows: Sequence[ExaminedMessage]) -> list[ExaminedMessage]:
    """Active rows that repeat a run of active rows of the same session, its user rows with the same times."""
    spoken = [row for row in rows if row.is_active and row.role in (*SPOKEN, "tool") and not row.is_summary]
    if any(row.is_summary for row in rows):
        return []  # a compressed session: copies are carried
    seen: dict[tuple[str, str, float], int] = {}
    for n, row in enumerate(spoken):
        key = (row.role, row.text, row.at)
        if row.role == "user" and key in seen:
            length = _run_length(spoken, seen[key], n)
            if length >= REPEATED_MIN:
                return [*spoken[n : n + length], *_more(spoken, n + length, seen)]
        seen.setdefault(key, n)
    return []


def _run_length(rows: Sequence[ExaminedMessage], old: int, new: int) -> int:
    length = 0
    while new + length < len(rows) and old + length < new:
        first, second = rows[old + length], rows[new + length]
        if (first.role, first.text) != (second.role, second.text):
            break
        length += 1
    return length


def _more(
    rows: Sequence[ExaminedMessage], at: int, seen: Mapping[tuple[str, str, float], int]
) -> list[ExaminedMessage]:
    """Further repetitions behind the first one."""
    while at < len(rows) and (rows[at].role, rows[at].text, rows[at].at) not in seen:
        at += 1
    if at >= len(rows):
        return []
    length = _run_length(rows, seen[rows[at].role, rows[at].text, rows[at].at], at)
    return [*rows[at : at + length], *_more(rows, at + max(length, 1), seen)]


def once(rows: Sequence[ExaminedMessage]) -> list[ExaminedMessage]:
    """The rows without those that repeat others."""
    repeated = {row.id for row in repeated_rows(rows)}
    return [row for row in rows if row.id not in repeated]
