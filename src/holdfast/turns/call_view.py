"""The view of a tool call for a person: the shown text, and the digest of exactly what will run. Pure.

Rule 1: the shown text means what will run. An invisible character, or one that moves others, is written as a JSON
        escape; an escape for a visible character is written as that character; both forms mean the same. Otherwise only
        blanks between JSON tokens change. In a chat the text stands between backticks, because platforms that render
        markup would hide, drop or replace some characters.
Rule 2: a long text is shown by its head and its tail, with the number of characters between them.
Rule 3: a call that two readers could understand differently, or that is too long to read, is not shown at all
        (`why_unshowable`), so it cannot be approved.
Rule 4: the digest is SHA-256 over a random salt, the name of the tool, a line feed and the arguments as the tool
        receives them. The salt is erased when the words are forgotten: a digest alone confirms no guess about them.
"""

import hashlib
import json
import re

from holdfast.kernel.errors import DuplicateKey, InvalidJson
from holdfast.kernel.json_body import DEPTH_MAX, check_json
from holdfast.memory.notes_safety import without_hidden
from holdfast.turns.journal import ToolCall, is_storable

ARGUMENTS_BYTES_MAX = 65_536  # larger calls cannot be approved
SHOWN_CHARS_MAX = 1_200  # longer arguments are cut in a chat, so that the question fits one message on every platform
HEAD_CHARS, TAIL_CHARS = 700, 400  # the shown parts of cut arguments
SALT_BITS = 128
DIGEST_DIGITS = 12  # of 64; the digits that people read and type
GROUP_DIGITS = 4
INDENT = "  "
OPENING, CLOSING = frozenset("[{"), frozenset("]}")

_HEX = re.compile(r"[0-9a-f]{12,64}")
_BETWEEN_GROUPS = re.compile(r"[\s`'\"<>-]+")
_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*"?)|\s+', re.DOTALL)  # blanks outside strings
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]\s*[\]}]|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


def why_unshowable(call: ToolCall) -> str | None:
    """The reason why the call cannot be shown to a person, or None."""
    if not call.name.isprintable() or "`" in call.name:
        return "the name of the tool has characters that cannot be shown"
    if not is_storable(call.arguments):
        return "the arguments hold half of a surrogate pair, which is no character"
    raw = call.arguments.encode()
    if len(raw) > ARGUMENTS_BYTES_MAX:
        return f"the arguments have {len(raw)} bytes, and a person is shown at most {ARGUMENTS_BYTES_MAX}"
    return _why_unreadable(call.arguments) if call.arguments else None


def _why_unreadable(arguments: str) -> str | None:
    try:
        check_json(arguments.encode())
    except DuplicateKey:
        return "the arguments name a key twice in one object, so it is open which value counts"
    except InvalidJson:
        return f"the arguments are no valid JSON, or nest more than {DEPTH_MAX} levels deep"
    # An escape may also be half of a surrogate pair; parsers disagree about its meaning.
    if "\\u" in arguments and not is_storable(json.dumps(json.loads(arguments), ensure_ascii=False)):
        return "the arguments hold half of a surrogate pair, which is no character"
    return None


# --- the text --------------------------------------------------------------------------------------


def one_line(arguments: str) -> str:
    """The arguments on one line: each run of blanks between tokens becomes one space.

    Backticks are escaped, because the line stands between two.
    """
    line = _BLANKS.sub(lambda found: _string(found[1]) if found[1] else " ", arguments).strip()
    return spelt(line).replace("`", _escape("`"))


def is_cut(arguments: str) -> bool:
    """Whether the text in a chat omits part of the arguments."""
    return len(one_line(arguments)) > SHOWN_CHARS_MAX


def shown_arguments(arguments: str) -> str:
    """The arguments for a chat: whole, or head and tail with the number of omitted characters."""
    text = one_line(arguments)
    if len(text) <= SHOWN_CHARS_MAX:
        return text
    left_out = len(text) - HEAD_CHARS - TAIL_CHARS
    return f"{text[:HEAD_CHARS]} …[{left_out} characters left out]… {text[-TAIL_CHARS:]}"


def full_arguments(arguments: str) -> str:
    """The whole arguments, one value per line.

    The tokens keep their order and are not decoded: a number keeps its digits, and a duplicate key is shown twice.
    """
    lines, depth, line = list[str](), 0, ""
    for part in _TOKENS.findall(arguments):
        if part in CLOSING:
            depth = max(0, depth - 1)
            lines.append(line)
            line = INDENT * depth + part
        elif part in OPENING or part == ",":
            depth += part != ","
            lines.append(line + part)
            line = INDENT * depth
        elif part[0] in OPENING:  # an empty object or list
            line += part[0] + part[-1]
        else:
            line += ": " if part == ":" else spelt(_string(part))
    return "\n".join([*lines, line])


def _string(part: str) -> str:
    """A JSON string with needless escapes decoded; any other token unchanged."""
    if "\\" not in part:
        return part
    try:
        return json.dumps(json.loads(part), ensure_ascii=False)
    except ValueError:
        return part


def spelt(text: str) -> str:
    """The text with each invisible or reordering character as a JSON escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isprintable() and without_hidden(char) == char else _escape(char) for char in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


# --- the digest --------------------------------------------------------------------------------------


def call_digest(name: str, arguments: str, salt: bytes) -> str:
    """The 64-digit digest of exactly this call."""
    return hashlib.sha256(salt + name.encode() + b"\n" + arguments.encode()).hexdigest()


def short_digest(digest: str) -> str:
    """The first digits of a digest, in groups, for people to read and type."""
    digits = digest[:DIGEST_DIGITS]
    return "-".join(digits[place : place + GROUP_DIGITS] for place in range(0, len(digits), GROUP_DIGITS))


def is_digest(typed: str, digest: str) -> bool:
    """Whether a person named this digest: at least 12 of its digits, in any case and grouping."""
    digits = _BETWEEN_GROUPS.sub("", typed).lower()
    return _HEX.fullmatch(digits) is not None and digest.startswith(digits)
