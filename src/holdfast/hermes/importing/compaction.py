"""Compressions of Hermes, found in its rows: which rows are copies, and what each summary covers.

A compression writes the first rows again, then its summary, then the last rows again: after the archived rows of the
same session (in place), instead of deleted rows, or into a child session (rotation).

Rule 1: a copy whose original is in the same session is left out; the journal already has the original.
Rule 2: a copy whose original is in the parent stays in the child, because the child's context needs it. It is carried:
        no provider gets it again.
Rule 3: a message that a rotation left unanswered in the parent belongs to the child, which has it and its answer.
Rule 4: a row is a copy only as part of a run that continues the rows it copies: the first ones before the summary, the
        last ones after it. Equal texts elsewhere are two messages.
Rule 5: a user's row with the beginning and the time of an earlier one is a copy too, wherever it stands, and so are the
        rows behind it that repeat the answer. Newer releases keep the time, and write rows again without a summary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.hermes.importing.rows import HermesRow, RowState

COPIES_MIN = 2  # rows before an older summary that are taken for copies; fewer may be chance


class RowFate(Enum):
    KEPT = "kept"
    CARRIED = "carried"  # a copy of a row of the parent
    COPY = "copy"  # a copy of a row of the same session
    SUMMARY = "summary"
    RECORD = "record"  # a row of Hermes' own, not of the conversation


@dataclass(frozen=True, slots=True)
class RowMark:
    """The part of a row that decides its fate."""

    identity: bytes
    state: RowState
    is_summary: bool = False
    is_spoken: bool = True
    is_user: bool = False
    at_ms: int = 0
    opening: bytes = b""  # of a user's row with a time of its own: its first paragraph, which joined messages keep


def mark_of(row: HermesRow) -> RowMark:
    is_user = row.role == "user"
    opening = row.opening if is_user and row.is_timed and not row.is_summary else b""
    return RowMark(row.identity, row.state, row.is_summary, row.is_spoken, is_user, row.at_ms, opening)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A summary, by positions of rows: its own, the first rows shown before it, the first row shown after it."""

    summary: int
    head: tuple[int, ...] = ()
    tail: int | None = None  # None: nothing before the summary is shown


@dataclass(frozen=True, slots=True)
class RowFates:
    fates: tuple[RowFate, ...]
    compactions: tuple[Compaction, ...] = ()


def judge_rows(
    marks: Sequence[RowMark], parent: Sequence[RowMark] = (), *, child: frozenset[bytes] | None = None
) -> RowFates:
    """The fate of each row.

    `parent` are the rows of the parent, if there is a parent. `child` are the identities of the child in which a
    compression continued the session; None if none ended it.
    """
    inherited = answered(parent)
    fates = [RowFate.KEPT if mark.is_spoken else RowFate.RECORD for mark in marks]
    spoken = [n for n, mark in enumerate(marks) if mark.is_spoken and mark.state is not RowState.UNDONE]
    if child is not None:
        spoken = _once(marks, spoken, fates)
        _hand_over(marks, spoken, fates, child)
    ids = [marks[n].identity for n in spoken]
    summaries = [place for place, n in enumerate(spoken) if marks[n].is_summary]
    if inherited and not summaries:
        for place in range(_common(ids, inherited)):
            fates[spoken[place]] = RowFate.CARRIED
    origin = list(range(len(spoken)))  # the original of each copy
    found: list[Compaction] = []
    start = 0  # where the rows that the next summary replaces begin
    for summary in summaries:
        fates[spoken[summary]] = RowFate.SUMMARY
        if not found and inherited and _is_of_child(ids, summary, inherited):
            tail = _tail(inherited, ids[summary + 1 :])
            for place in (*range(summary), *range(summary + 1, summary + 1 + tail)):
                fates[spoken[place]] = RowFate.CARRIED
            found.append(Compaction(summary=spoken[summary], head=tuple(spoken[:summary])))
            continue
        head = _head(marks, spoken, ids, start, summary)
        tail = _tail(ids[start : summary - head], ids[summary + 1 :])
        first = summary - head - tail
        if not tail:
            first, tail = _tail_by_time([marks[n] for n in spoken], start, summary - head, summary + 1)
        copies = [(summary - head + step, start + step) for step in range(head)]
        copies += [(summary + 1 + step, first + step) for step in range(tail)]
        for copy, original in copies:
            if ids[copy] == ids[original]:
                fates[spoken[copy]], origin[copy] = RowFate.COPY, origin[original]
        found.append(
            Compaction(
                summary=spoken[summary],
                head=tuple(spoken[origin[place]] for place in range(summary - head, summary)),
                tail=spoken[origin[summary + 1]] if tail else None,
            )
        )
        start = summary - head
    _mark_proven(marks, fates, parent)
    return RowFates(tuple(fates), tuple(found))


def _is_of_child(ids: Sequence[bytes], summary: int, parent: Sequence[bytes]) -> bool:
    """Whether the summary was made of the parent's rows, which were copied around it."""
    return list(ids[:summary]) == list(parent[:summary]) or _tail(parent, ids[summary + 1 :]) > 0


def _head(marks: Sequence[RowMark], spoken: Sequence[int], ids: Sequence[bytes], start: int, summary: int) -> int:
    """The number of rows before the summary that copy the rows from `start` on."""
    if marks[spoken[summary]].state is RowState.ACTIVE:
        first = summary
        while first > start and marks[spoken[first - 1]].state is RowState.ACTIVE:
            first -= 1
        if marks[spoken[start]].state is RowState.ARCHIVED:
            return summary - first  # the archived rows end where the copies begin
        return 0  # nothing was archived, so there is no original of these rows
    for count in range((summary - start) // 2, 0, -1):
        same = ids[summary - count : summary] == ids[start : start + count]
        if same and (count >= COPIES_MIN or marks[spoken[start]].at_ms == marks[spoken[summary - count]].at_ms):
            return count
    return 0


def _tail(earlier: Sequence[bytes], later: Sequence[bytes]) -> int:
    """The length of the longest end of `earlier` that `later` begins with."""
    longest = min(len(earlier), len(later))
    for count in range(longest, 0, -1):
        if later[count - 1] == earlier[-1] and list(later[:count]) == list(earlier[len(earlier) - count :]):
            return count
    return 0


def _tail_by_time(rows: Sequence[RowMark], start: int, end: int, after: int) -> tuple[int, int]:
    """Where the rows before a summary are that the rows behind it repeat, and how many; (0, 0) if none is proved.

    They may end before the summary: what follows them was said while it was made, and no summary covers it.
    """
    if after >= len(rows) or not rows[after].opening:
        return 0, 0
    for first in range(end - 1, start - 1, -1):
        if (rows[first].opening, rows[first].at_ms) == (rows[after].opening, rows[after].at_ms):
            count = 1
            while first + count < end and after + count < len(rows):
                if rows[first + count].identity != rows[after + count].identity:
                    break
                count += 1
            return first, count
    return 0, 0


def _mark_proven(marks: Sequence[RowMark], fates: list[RowFate], parent: Sequence[RowMark]) -> None:
    """Apply rule 5 to the rows that are still taken for messages of this session."""
    originals = {(row.opening, row.at_ms): RowFate.CARRIED for row in parent if row.opening and not row.is_summary}
    said = {RowFate.CARRIED: {row.identity for row in parent}, RowFate.COPY: set[bytes]()}
    fate: RowFate | None = None  # of the copy that the rows at hand belong to
    for n, row in enumerate(marks):
        if fates[n] is RowFate.RECORD:
            continue
        key = (row.opening, row.at_ms)
        if row.is_user or row.is_summary:
            fate = originals.get(key) if fates[n] is RowFate.KEPT and row.opening else None
        if fates[n] is RowFate.KEPT and fate is not None and (row.is_user or row.identity in said[fate]):
            fates[n] = fate
        if row.opening and not row.is_summary:
            originals[key] = RowFate.COPY
        said[RowFate.COPY].add(row.identity)


def _common(ids: Sequence[bytes], parent: Sequence[bytes]) -> int:
    """The number of rows that a branch begins with and its parent too; one equal row may be chance."""
    count = 0
    while count < min(len(ids), len(parent)) and ids[count] == parent[count]:
        count += 1
    return count if count >= COPIES_MIN else 0


def _once(marks: Sequence[RowMark], spoken: list[int], fates: list[RowFate]) -> list[int]:
    """The rows without a second writing of the transcript, which 0.19 leaves in a session that it rotates."""
    ids = [marks[n].identity for n in spoken]
    for half in range(len(ids) // 2, COPIES_MIN, -1):
        if ids[half] == ids[0] and ids[:half] == ids[half : 2 * half]:
            for n in spoken[half : 2 * half]:
                fates[n] = RowFate.COPY
            return [*spoken[:half], *spoken[2 * half :]]
    return spoken


def _hand_over(marks: Sequence[RowMark], spoken: list[int], fates: list[RowFate], child: frozenset[bytes]) -> None:
    """Leave the messages that were not answered any more to the child, which has them and their answer."""
    while spoken and marks[spoken[-1]].is_user and marks[spoken[-1]].identity in child:
        fates[spoken.pop()] = RowFate.COPY


def answered(marks: Sequence[RowMark]) -> list[bytes]:
    """The identities of the active rows up to the last answer: what a compression copies into a child."""
    active = [mark for mark in marks if mark.is_spoken and mark.state is RowState.ACTIVE]
    while active and active[-1].is_user:
        active.pop()
    return [mark.identity for mark in active]
