"""Framing: people's words as data for a model. No text can close its frame or imitate a line of it. Pure.

Rule 1: a frame opens and closes with a tag on its own line. Its lines begin at the margin; every line of a text but the
        first is indented, for every line-ending character.
Rule 2: invisible characters are removed from a text, and a `<` that could begin a tag is written `&lt;`: a tag can be
        spelt neither plainly nor around a hidden character.
Rule 3: a label names the speaker and the time. It is one line without brackets, tags and separators, so no name can end
        it.
"""

import re
from collections.abc import Iterable

from holdfast.memory.notes_safety import without_hidden
from holdfast.turns.journal import indented

_FRAMES = "recalled-memory|memory-context|notes|summary|earlier-in-this-chat|system|user|assistant|developer|tool"
# Characters that look like `<`, before a character that can begin a tag name. `a < b` is no tag.
_TAG = re.compile(rf"[<\uff1c\ufe64](?=\s*/|[a-z!?|]|\s*(?:{_FRAMES})\b)", re.IGNORECASE)
_LABEL_ENDS = re.compile(r"[\[\];,<>\uff1c\ufe64\s]+")


def quoted(text: str) -> str:
    """The text, escaped for the inside of a frame."""
    return indented(_TAG.sub("&lt;", without_hidden(text)))


def label(*parts: str) -> str:
    """The bracketed source of a text; empty parts are omitted."""
    inert = (_LABEL_ENDS.sub(" ", without_hidden(part)).strip() for part in parts)
    return f"[{'; '.join(part for part in inert if part)}]"


def framed(tag: str, opening: str, lines: Iterable[str]) -> str:
    """The frame. Each of `lines` is built with `label` and `quoted`, or is Holdfast's own text."""
    return "\n".join([f"<{tag}>", opening, *lines, f"</{tag}>"])
