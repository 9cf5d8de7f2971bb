"""Which messages a compression carried over, and which ones it neither carried nor covered.

A compression writes the first messages again, a summary, and the last messages again. The last messages reach to the
end of what the compression knew. Words that follow in the old history were said while it summarised: no summary covers
them. Copies are compared by their stripped text, because carried messages lose outer blanks. Hermes joins messages of
one role that follow each other, and may join its task list to the last one; any other added text makes a new message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.hermes.doctor.summary_text import words_beside_summary

TASK_LIST = "[Your active task list was preserved"

Said = tuple[str, str]  # role and stripped text


class ComparedRow(Protocol):
    """The part of a row by which copies are known."""

    @property
    def role(self) -> str: ...

    @property
    def text(self) -> str:
        """Without outer blanks."""

    @property
    def at(self) -> float: ...

    @property
    def is_spoken(self) -> bool: ...

    @property
    def is_undone(self) -> bool: ...

    @property
    def is_summary(self) -> bool: ...


R = TypeVar("R", bound=ComparedRow)


@dataclass(frozen=True, slots=True)
class CarriedBlock:
    """The rows that one compression wrote into a session; positions are those of the session's rows."""

    first: int
    summary: int
    last: int
    known: int  # how many spoken originals the compression knew; -1 if no carried message tells


def repeated(originals: Sequence[Said], start: int, copy: Said) -> int:
    """How many originals from one on a row repeats: one, or several that Hermes joined; 0 if it repeats none."""
    role, rest = copy
    for at in range(start, len(originals)):
        of, text = originals[at]
        if of != role or not rest.startswith(text):
            return 0
        behind = rest[len(text) :]
        rest = behind.lstrip()
        if not rest or rest.startswith(TASK_LIST):
            return at + 1 - start
        if "\n" not in behind[: len(behind) - len(rest)]:
            return 0
    return 0


def repeated_by(originals: Sequence[Said], rows: Sequence[Said]) -> set[int]:
    """The positions of the originals that a row repeats, alone or joined with others."""
    found: set[int] = set()
    for start in range(len(originals)):
        for row in rows:
            found.update(range(start, start + repeated(originals, start, row)))
    return found


def said(message: ComparedRow) -> Said:
    return message.role, message.text


def carried_suffix(originals: Sequence[Said], copies: Sequence[Said]) -> tuple[int, int]:
    """How many copies repeat originals in a row, and where in the originals they end; (0, -1) if none do.

    The longest repetition counts, and of equal ones the latest.
    """
    best = (0, -1)
    for start in range(len(originals)):
        length, end = 0, start
        while length < len(copies) and (count := repeated(originals, end, copies[length])):
            length, end = length + 1, end + count
        best = max(best, (length, end)) if length else best
    return best


def block_in_child(rows: Sequence[ComparedRow], parent: Sequence[ComparedRow]) -> CarriedBlock | None:
    """The rows with which a continuation begins; None if it has no summary."""
    at = next((n for n, row in enumerate(rows) if row.is_summary), None)
    if at is None:
        return None
    originals = [said(row) for row in parent if row.is_spoken and not row.is_undone]
    return _block(rows, at, originals, first=0)


def blocks_in_place(rows: Sequence[ComparedRow]) -> list[CarriedBlock]:
    """The blocks of a session that was compressed under its own id, oldest first."""
    found: list[CarriedBlock] = []
    for at, row in enumerate(rows):
        if not row.is_summary or (found and at <= found[-1].last):
            continue
        first = _first_of_block(rows, at)
        if first == 0:
            continue  # a carry from another session, or rows that were replaced: nothing older is left to compare
        originals = [said(one) for one in rows[:first] if one.is_spoken and not one.is_undone]
        found.append(_block(rows, at, originals, first=first))
    return found


def _first_of_block(rows: Sequence[ComparedRow], summary: int) -> int:
    """Copies in front of the summary have the time of their original, or of the summary."""
    first = summary
    while first > 0:
        row = rows[first - 1]
        older = rows[: first - 1]
        is_copy = any(said(one) == said(row) and row.at in (one.at, rows[summary].at) for one in older)
        if not is_copy:
            break
        first -= 1
    return first


def _block(rows: Sequence[ComparedRow], at: int, originals: Sequence[Said], *, first: int) -> CarriedBlock:
    merged = words_beside_summary(rows[at].text)
    behind = [(n, said(row)) for n, row in enumerate(rows) if n > at and row.is_spoken]
    copies = ([(at, (rows[at].role, merged))] if merged else []) + behind
    length, known = carried_suffix(originals, [copy for _, copy in copies])
    last = copies[length - 1][0] if length else at
    return CarriedBlock(first, at, last, known)


def is_cut_short(rows: Sequence[ComparedRow], parent: Sequence[ComparedRow]) -> bool:
    """Whether a continuation has nothing but copies of its parent's messages, and they end before the parent does."""
    originals = [said(row) for row in parent if row.is_spoken and not row.is_undone]
    spoken = [said(row) for row in rows if row.is_spoken]
    starts = range(len(originals))
    if not originals or not all(any(repeated(originals, at, copy) for at in starts) for copy in spoken):
        return False
    block = block_in_child(rows, parent)
    return block is None or block.known < len(originals)


def uncovered(originals: Sequence[R], block: CarriedBlock) -> list[R]:
    """The spoken rows that the compression neither carried nor knew."""
    spoken = [row for row in originals if row.is_spoken and not row.is_undone]
    return spoken[block.known :] if block.known >= 0 else []
