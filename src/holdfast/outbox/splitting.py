"""Splitting of long replies into pieces within a platform's length limit.

Rule 1: the same text gives the same pieces, so that a resumed reply continues with the right one.
Rule 2: the pieces contain the same words in the same order. White space at a cut may be dropped.
Rule 3: a cut is at the end of a paragraph, else of a line, a sentence, a word; only a word longer than a piece is
        broken, and then not inside a grapheme cluster.
Rule 4: a code block that is cut is closed at the end of its piece and reopened in the next.

`length` is the platform's count; it must count every character as at least one and be monotonic.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

LIMIT_MIN = 32
INFO_CHARS_MAX = 12  # a longer info string is not repeated when a code block is reopened
EARLIEST = 3  # a paragraph, line or sentence end counts only after the first 1/EARLIEST of a piece
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
    at: int  # offset of its first line

    @property
    def opening(self) -> str:
        return f"{self.mark}{self.info if len(self.info) <= INFO_CHARS_MAX else ''}\n"

    @property
    def closing(self) -> str:
        return f"\n{self.mark}"


def utf16_length(text: str) -> int:
    """The length in UTF-16 code units, as Telegram counts."""
    return len(text) + sum(char > "\uffff" for char in text)


def split(text: str, limit: int, length: Callable[[str], int] = len) -> tuple[str, ...]:
    """The pieces of a text; none if it is blank. Raises `ValueError` if `limit` is less than `LIMIT_MIN`."""
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
    """Strip blank lines, and spaces where a line was cut; keep the indentation of a whole line."""
    start = len(rest) - len(rest.lstrip())
    line = rest.rfind("\n", 0, start) + 1
    return rest[line or start :]


def _piece(rest: str, opening: str, limit: int, length: Callable[[str], int]) -> tuple[str, int, str]:
    """The next piece, the number of characters it consumes, and the prefix of the piece after it."""
    reserve = 0
    while True:
        room = limit - length(opening) - reserve
        if room < 1:  # a code block with such a long mark is cut like other text
            used = _cut(rest, _fitting(rest, limit, length))
            return rest[:used].rstrip(), used, ""
        used = _cut(rest, _fitting(rest, room, length))
        body = rest[:used].rstrip()
        fence = open_fence(opening + body)
        if fence is None:
            return opening + body, used, ""
        before = (opening + body)[: fence.at].rstrip()
        if before and "\n" not in (opening + body)[fence.at :]:  # the piece ends before the block's first line
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
    """The number of characters that fit; at least one."""
    low, high = 1, min(len(rest), room)
    while low < high:
        middle = (low + high + 1) // 2
        if length(rest[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(rest: str, end: int) -> int:
    """The offset of the cut, at or before `end`."""
    if end >= len(rest):
        return len(rest)
    window = rest[: end + 1]  # a separator right after the last fitting character counts too
    for place in (_PARAGRAPH, _LINE, _SENTENCE):
        if (found := _last(place, window, end, at_least=max(1, end // EARLIEST))) is not None:
            return found
    return _last(_WORD, window, end, at_least=1) or _between_characters(rest, end)


def _last(place: re.Pattern[str], window: str, end: int, *, at_least: int) -> int | None:
    """The offset of the last match in a window that has text before it."""
    best = None
    for found in place.finditer(window):
        if at_least <= found.start() <= end and window[: found.start()].strip():
            best = found.start()
    return best


def _between_characters(rest: str, end: int) -> int:
    """The last offset at or before `end` that is not inside a grapheme cluster."""
    cut = end
    while cut > 0 and _belong_together(rest, cut):
        cut -= 1
    return cut or end  # a cluster longer than a piece is broken


def _belong_together(rest: str, cut: int) -> bool:
    before, after = rest[cut - 1], rest[cut]
    if JOINER in (before, after) or ord(after) in _MODIFIERS or ord(after) in _TAGS:
        return True
    if unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    return ord(after) in _FLAGS and _flags_before(rest, cut) % 2 == 1


def _flags_before(rest: str, cut: int) -> int:
    """The number of consecutive regional indicators before an offset: a flag is two of them."""
    start = cut
    while start > 0 and ord(rest[start - 1]) in _FLAGS:
        start -= 1
    return cut - start
