"""People's words as Honcho can keep them. What it cannot is replaced or broken up where everybody can see it.

Rule 1: one bad turn never spoils its batch: what Honcho was seen to refuse never leaves as it is.
Rule 2: nothing is cut off. A long text becomes parts, in order, each within the limit.
Rule 3: special tokens of the tokeniser are spelt with a backslash more, `<\\|endoftext|>`, and `heard` takes it away
        again. Lone surrogates and NUL cannot be kept at all: they become U+FFFD and U+2400.
"""

import re

MESSAGE_CHARS_MAX = 25_000  # Honcho's MAX_MESSAGE_SIZE; 25,001 is 422
CONCLUSION_CHARS_MAX = 65_535
QUERY_CHARS_MAX = 2_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL = re.compile(r"<(\\*)\|(\w+)\|>", re.ASCII)
_BROKEN_UP = re.compile(r"<(\\*)\\\|(\w+)\|>", re.ASCII)


def said(text: str) -> str:
    """As it is sent."""
    visible = _SURROGATE.sub("\ufffd", text).replace("\0", "\u2400")
    return _SPECIAL.sub(r"<\1\\|\2|>", visible)


def heard(text: str) -> str:
    """As it was said, from what Honcho keeps."""
    return _BROKEN_UP.sub(r"<\1|\2|>", text)


def parts(text: str) -> list[str]:
    """The text in pieces that Honcho takes; a short one is its own only part."""
    return [text[start : start + MESSAGE_CHARS_MAX] for start in range(0, len(text), MESSAGE_CHARS_MAX)] or [""]
