"""Rows that repeat a whole stretch of the same session: 0.19 writes the transcript again before it rotates.

Copies that a compression carried are no repetitions: their originals are archived, deleted, or in another session.
"""

from collections.abc import Sequence

from holdfast.hermes.doctor.records import SPOKEN, ExaminedMessage

REPEATED_MIN = 2


def repeated_rows(rows: Sequence[ExaminedMessage]) -> list[ExaminedMessage]:
    """Active rows that repeat a run of active rows of the same session, its user rows with the same times."""
    active = [row for row in rows if row.is_active and row.role in (*SPOKEN, "tool")]
    seen: dict[tuple[str, str, float], int] = {}
    repeated: list[ExaminedMessage] = []
    at = 0
    while at < len(active):
        row = active[at]
        key = (row.role, row.text, row.at)
        found = _run(active, seen[key], at) if row.role == "user" and key in seen else []
        if len(found) >= REPEATED_MIN:
            repeated += found
            at = active.index(found[-1]) + 1
        else:
            seen.setdefault(key, at)
            at += 1
    return repeated


def _run(rows: Sequence[ExaminedMessage], old: int, new: int) -> list[ExaminedMessage]:
    """The rows from one on that repeat the rows from an earlier one on, with the summary in front of them."""
    length = 0
    while new + length < len(rows) and old + length < new and _same(rows[old + length], rows[new + length]):
        length += 1
    first = new
    while old > 0 and rows[old - 1].is_summary and _same(rows[old - 1], rows[first - 1]):
        old, first = old - 1, first - 1
    return list(rows[first : new + length])


def _same(one: ExaminedMessage, other: ExaminedMessage) -> bool:
    return (one.role, one.text) == (other.role, other.text)


def once(rows: Sequence[ExaminedMessage]) -> list[ExaminedMessage]:
    """The rows without those that repeat others."""
    repeated = {row.id for row in repeated_rows(rows)}
    return [row for row in rows if row.id not in repeated]
