"""Long replies in pieces that a platform takes, cut where a reader would cut them.

Rule 1: the same text gives the same pieces, so that a resumed reply goes on with the right one.
Rule 2: nothing is lost: the pieces hold the same words in the same order. White space at a cut may go.
Rule 3: a cut is made at the end of a paragraph, else of a line, a sentence, a word; only a word that is too long for
        a piece is broken, and then not inside what is shown as one character.
Rule 4: a code block that is cut is closed at the end of its piece and opened again in the next.

`length` is how the platform counts; it must count every character as at least one and grow with the text.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

LIMIT_MIN = 32
INFO_CHARS_MAX = 12  # of a code block's first line, when it is repeated
EARLIEST = 3  # a piece is filled to at least one part in so many before a better place to cut counts
JOINER = "\u200d"
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*?(?=[^\n])")
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"(?<=[.!?\u2026\u3002\uff01\uff1f])[\"'\u201d\u2019)\]]*\s+")
_WORD = re.compile(r"\s+")
_MODIFIERS = range(0x1F3FB, 0x1F400)
_FLAGS = range(0x1F1E6, 0x1F200)
_TAGS = range(0xE0020, 0xE0080)


class Fence(NamedTuple):
    """A code block that is open at the end of a text."""

    mark: str
    info: str
    at: int  # where its first line begins

    @property
    def opening(self) -> str:
        return f"{self.mark}{self.info if len(self.info) <= INFO_CHARS_MAX else ''}\n"

    @property
    def closing(self) -> str:
        return f"\n{self.mark}"


def utf16_length(text: str) -> int:
    """As Telegram counts: a character outside the basic plane is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def split(text: str, limit: int, length: Callable[[str], int] = len) -> tuple[str, ...]:
    """The pieces of a text; none for a text of nothing but white space. Raises `ValueError` for an absurd limit."""
    if limit < LIMIT_MIN:
        raise ValueError(f"a piece of {limit} characters is too small; at least {LIMIT_MIN} are needed")
    pieces: list[str] = []
    rest, opening = text, ""
    while rest.strip():
        if length(opening + rest) <= limit:
            pieces.append(opening + rest.rstrip() if opening or pieces else rest)
            break
        piece, used, opening = _piece(rest, opening, limit, length)
        pieces.append(piece)
        rest = rest[used:]
        rest = rest.lstrip("\n") if opening else _without_blank_start(rest)
    return tuple(pieces)


def _without_blank_start(rest: str) -> str:
    """Blank lines at the start of a piece go, and spaces where a line was cut; the indentation of a line stays."""
    start = len(rest) - len(rest.lstrip())
    line = rest.rfind("\n", 0, start) + 1
    return rest[line or start :]


def _piece(rest: str, opening: str, limit: int, length: Callable[[str], int]) -> tuple[str, int, str]:
    """The next piece, how much of the rest it takes, and what the piece after it must begin with."""
    reserve = 0
    while True:
        room = limit - length(opening) - reserve
        if room < 1:  # a code block with a mark that long is cut like any other text
            used = _cut(rest, _fitting(rest, limit, length))
            return rest[:used].rstrip(), used, ""
        used = _cut(rest, _fitting(rest, room, length))
        body = rest[:used].rstrip()
        fence = open_fence(opening + body)
        if fence is None:
            return opening + body, used, ""
        before = (opening + body)[: fence.at].rstrip()
        if before and "\n" not in (opening + body)[fence.at :]:  # nothing of the block is in this piece
            return before, fence.at - len(opening), ""
        if length(opening + body + fence.closing) <= limit:
            return opening + body + fence.closing, used, fence.opening
        reserve += length(fence.closing)


def open_fence(text: str) -> Fence | None:
    """The code block that is open at the end of a text, if any."""
    fence: Fence | None = None
    for found in _FENCE.finditer(text):
        mark, info = found["mark"], found["info"].strip()
        if fence is None:
            fence = Fence(mark, info, found.start())
        elif mark[0] == fence.mark[0] and len(mark) >= len(fence.mark) and not info:
            fence = None
    return fence


def _fitting(rest: str, room: int, length: Callable[[str], int]) -> int:
    """How many characters of the rest fit; at least one."""
    low, high = 1, min(len(rest), room)
    while low < high:
        middle = (low + high + 1) // 2
        if length(rest[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(rest: str, end: int) -> int:
    """Where to cut, at or before `end`."""
    if end >= len(rest):
        return len(rest)
    window = rest[: end + 1]  # a place just behind the last character that fits is as good
    for place in (_PARAGRAPH, _LINE, _SENTENCE):
        if (found := _last(place, window, end, at_least=max(1, end // EARLIEST))) is not None:
            return found
    return _last(_WORD, window, end, at_least=1) or _between_characters(rest, end)


def _last(place: re.Pattern[str], window: str, end: int, *, at_least: int) -> int | None:
    """Where the last such place of a window begins, with something before it."""
    best = None
    for found in place.finditer(window):
        if at_least <= found.start() <= end and window[: found.start()].strip():
            best = found.start()
    return best


def _between_characters(rest: str, end: int) -> int:
    """The last place at or before `end` that is not inside what is shown as one character."""
    cut = end
    while cut > 0 and _belong_together(rest, cut):
        cut -= 1
    return cut or end  # something longer than a piece is broken all the same


def _belong_together(rest: str, cut: int) -> bool:
    before, after = rest[cut - 1], rest[cut]
    if JOINER in (before, after) or ord(after) in _MODIFIERS or ord(after) in _TAGS:
        return True
    if unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    return ord(after) in _FLAGS and _flags_before(rest, cut) % 2 == 1


def _flags_before(rest: str, cut: int) -> int:
    """How many letters of flags stand in a row before a place: two of them make a flag."""
    start = cut
    while start > 0 and ord(rest[start - 1]) in _FLAGS:
        start -= 1
    return cut - start
