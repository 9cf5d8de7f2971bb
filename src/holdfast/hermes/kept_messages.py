"""The users' messages that Hindsight and Honcho keep of a home: in the forms of Hermes' plugins, and in Holdfast's.

Words are compared without blanks: Hermes strips and splits a message, and a document indents its lines.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CONTINUED = "[continued] "  # Hermes' mark of a further part of a long message
SHORT_CHARS_MAX = 19  # people say texts of this length in several chats
_LABEL = re.compile(r"\A[^\n:]{1,40}: ")  # Hermes' word for the speaker, before the words
_LINE = re.compile(r"\[[0-9T:.Z-]+\] .*? \((\w+)\): (.*)")  # of a document that Holdfast wrote
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """What one provider lists, by session of Hermes and by place of the provider."""

    provider: str
    by_session: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_place: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unread: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by session: documents of an unknown form


def fingerprint(text: str) -> bytes:
    """Equal for a message and the forms in which providers keep it."""
    return hashlib.blake2b("".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def messages_of_document(text: str) -> list[str]:
    """The users' messages in a document of Hindsight: Hermes' JSON, or the lines that Holdfast writes.

    A server that appends without merging makes one line for each array of JSON.
    """
    lists = [found for line in text.splitlines() if isinstance(found := _json(line), list)]
    return list(_in_json(lists)) if lists else list(_in_lines(text))


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _in_json(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _in_json(one)
    elif isinstance(value, dict) and value.get("role") == "user" and isinstance(value.get("content"), str):
        yield _LABEL.sub("", value["content"], count=1)


def _in_lines(text: str) -> Iterator[str]:
    said: list[str] | None = None
    for line in text.splitlines():
        if said is not None and line.startswith(_INDENT):
            said.append(line)
            continue
        if said is not None:
            yield "\n".join(said)
        found = _LINE.match(line)
        said = [found[2]] if found is not None and found[1] == "user" else None
    if said is not None:
        yield "\n".join(said)


def joined_parts(texts: Iterable[tuple[str, bool]]) -> list[str]:
    """Whole messages of parts in order. The flag says that a part continues the one before it."""
    whole: list[str] = []
    for text, continues in texts:
        if whole and continues:
            whole[-1] += text.removeprefix(CONTINUED)
        else:
            whole.append(text)
    return whole
