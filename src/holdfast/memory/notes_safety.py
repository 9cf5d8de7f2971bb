"""Blocking unsafe notes: invisible text, and text that imitates markers of a prompt.

The model sees the notes in every conversation, so one poisoned note would have a lasting effect. A reason never quotes
the text; it names the code point or the kind of marker.

Rule 1: invisible characters are blocked, except those that a script needs: joiners inside emoji and inside scripts that
        use them, one variation selector after its sign, and the three flags made of tags.
Rule 2: markers of a model's chat template are blocked. So are imitations of our frames: their tags, the heading of the
        operator's notes, and the brackets with writer and date before a note.
Rule 3: a line that separates entries in a file is blocked.
"""

import re
import unicodedata
from collections.abc import Sequence

ZERO_WIDTH_NON_JOINER, ZERO_WIDTH_JOINER = "\u200c", "\u200d"
VARIATIONS = frozenset("\ufe0e\ufe0f")
KEYCAP = "\u20e3"
ALLOWED_CONTROLS = frozenset("\n\t")
# Letters by category, but invisible.
BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
FLAGS_OF_TAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
# Arabic to Sinhala, Myanmar, Khmer and Mongolian: joiners change the meaning in these scripts.
JOINED_SCRIPTS = ((0x0600, 0x0DFF), (0x1000, 0x109F), (0x1780, 0x18AF))
VARIED_SIGNS = frozenset("#*0123456789\u203c\u2049\u2139\u3030\u303d")

LINE_ENDS = frozenset("\n\r\v\f\x85\u2028\u2029")
# A superset of the hidden characters: most texts have none of them and need no further check.
_MAY_HIDE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U0010ffff]"
)

SEPARATOR_LINE = re.compile(r"^[ \t]*§[ \t]*$", re.MULTILINE)
MARKERS = (
    (re.compile(r"<\|[^<>]{0,64}\|>"), "a chat template's marker"),
    (re.compile(r"\[/?inst\]|<</?sys>>"), "a chat template's marker"),
    (
        re.compile(
            r"<\s*/?\s*(?:[\w.-]+[:_-])?(?:memory|memories|recall(?:ed)?|recollections?|system|assistant|developer"
            r"|instructions?)(?:[:_-][\w.-]+)?\b[^<>]{0,200}>"
        ),
        "a tag that frames what a model is told",
    ),
    (re.compile(r"<\s*/\s*(?:user|human|context|tool|tool_result|function_results)\s*>"), "a closing role tag"),
    (
        re.compile(
            r"^[\s>#*_\[(-]*(?:system|assistant|developer|human)(?:\s+(?:prompt|message))?[\])*_ ]*:", re.MULTILINE
        ),
        "a line that begins like a speaker of a conversation",
    ),
)
# The parts of our frames of notes, summaries and recollections (framing.py, notes_view.py, recall.py).
FRAME_MARKERS = (
    (
        re.compile(r"<\s*/?\s*(?:notes|summary|earlier-in-this-chat)\b[^<>]{0,200}>"),
        "a tag that frames what a model is told",
    ),
    (
        re.compile(r"\((?:shared by the operator|your (?:own )?notes\b[^()\n]{0,40})\)[^:\n]{0,80}:"),
        "a heading of the notes",
    ),
    (
        re.compile(r"^[\s>*•-]*\[(?=[^\]\n]*\b\d{4}-\d{2}-\d{2}\b)[^\]\n;]*;[^\]\n]*\]", re.MULTILINE),
        "brackets as they stand before a note",
    ),
)


def reason_to_block(text: str) -> str | None:
    """Why the text may not be stored or shown as a note, or None."""
    found = reason_to_block_text(text)
    return found if found is not None else _imitation(text, FRAME_MARKERS)


def reason_to_block_text(text: str) -> str | None:
    """The same for the operator's own text, which may mention our frames."""
    hidden = _hidden(text)
    if hidden is not None:
        return f"it holds {hidden}"
    if SEPARATOR_LINE.search(text):
        return "it holds a line with only '§', which separates entries"
    return _imitation(text, MARKERS)


def _imitation(text: str, markers: Sequence[tuple[re.Pattern[str], str]]) -> str | None:
    plain = unicodedata.normalize("NFKC", text).casefold()
    found = next((what for marker, what in markers if marker.search(plain)), None)
    return f"it holds {found}" if found else None


def without_hidden(text: str) -> str:
    """The text without invisible characters; line ends of every kind stay."""
    if not _MAY_HIDE.search(text):
        return text
    return "".join(char for place, char in enumerate(text) if char in LINE_ENDS or not _is_hidden(text, place))


def _hidden(text: str) -> str | None:
    if text.isascii() and text.isprintable():
        return None
    for flag in FLAGS_OF_TAGS:
        text = text.replace(flag, flag[0])
    found = next((place for place in range(len(text)) if _is_hidden(text, place)), None)
    if found is None:
        return None
    return f"the character U+{ord(text[found]):04X}, which people cannot see"


def _is_hidden(text: str, place: int) -> bool:
    char = text[place]
    before, after = text[place - 1 : place] if place else "", text[place + 1 : place + 2]
    if char in VARIATIONS:
        return not _may_vary(before, after)
    if char in {ZERO_WIDTH_JOINER, ZERO_WIDTH_NON_JOINER}:
        return not _may_join(char, before, after)
    if char in ALLOWED_CONTROLS:
        return False
    if char in BLANKS or _is_variation_supplement(char):
        return True
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and not _is_emoji(char)


def _is_variation_supplement(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef" or "\u180b" <= char <= "\u180f"


def _may_vary(before: str, after: str) -> bool:
    if before in VARIED_SIGNS:
        return before > "\x7f" or after == KEYCAP
    return bool(before) and (_is_emoji(before) or unicodedata.category(before) in {"So", "Sm"})


def _may_join(char: str, before: str, after: str) -> bool:
    if not before or not after:
        return False
    if _is_joined_script(before) and _is_joined_script(after):
        return True
    drawn = _is_emoji(before) or before in VARIATIONS
    return char == ZERO_WIDTH_JOINER and drawn and _is_emoji(after)


def _is_joined_script(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in JOINED_SCRIPTS) and unicodedata.category(char)[0] in "LM"


def _is_emoji(char: str) -> bool:
    """Deliberately broad: it includes pictographs that this Python's Unicode version does not know."""
    return "\U0001f000" <= char <= "\U0001faff" or unicodedata.category(char) == "So"
