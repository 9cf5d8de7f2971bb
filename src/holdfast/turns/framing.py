"""Framing: people's words as data for a model. No text can close its frame, or pass for a line of it. Pure.

Rule 1: a frame opens and closes with a tag on a line of its own. Its lines begin at the margin; every line of a text
        but the first is indented, whichever character ends a line.
Rule 2: characters that nobody sees are left out of a text, and a `<` that could begin a tag is written `&lt;`: a tag
        can be spelt neither plainly nor around a hidden character.
Rule 3: a label says who and when. It is one line without brackets, tags and separators, so no name can end it.
"""

import re
from collections.abc import Iterable

from holdfast.memory.notes_safety import without_hidden
from holdfast.turns.journal import indented

_FRAMES = "recalled-memory|memory-context|notes|summary|earlier-in-this-chat|system|user|assistant|developer|tool"
# Signs that are drawn like `<`, before what a tag begins with. `a < b` is no tag.
_TAG = re.compile(rf"[<\uff1c\ufe64](?=\s*/|[a-z!?|]|\s*(?:{_FRAMES})\b)", re.IGNORECASE)
_LABEL_ENDS = re.compile(r"[\[\];,<>\uff1c\ufe64\s]+")


def quoted(text: str) -> str:
    """A text as it stands inside a frame."""
    return indented(_TAG.sub("&lt;", without_hidden(text)))


def label(*parts: str) -> str:
    """The brackets that say where a text is from; empty parts are left out."""
    return f"[{'; '.join(part for part in map(_label_part, parts) if part)}]"


def framed(tag: str, opening: str, lines: Iterable[str]) -> str:
    """The frame. `lines` are made of `label` and `quoted`, or of our own words."""
    return "\n".join([f"<{tag}>", opening, *lines, f"</{tag}>"])


def _label_part(text: str) -> str:
    return _LABEL_ENDS.sub(" ", without_hidden(text)).strip()
