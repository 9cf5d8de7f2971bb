"""Evidence of delivery: which imported turns a memory provider has, by the users' messages that it lists.

Rule 1: words are compared without blanks. Hermes strips and splits a message, and a document indents its lines.
Rule 2: one stored message proves one turn. Of two equal turns the earlier one is taken for the delivered one.
Rule 3: messages that name their session prove turns of that session alone, and messages of a chat prove turns of that
        chat. A session without a chat key may have gone to any place: old releases do not store the key.
Rule 4: the message that was answered counts: Hermes offers a provider no other one.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.hermes.importing.turns import ImportedTurn
from holdfast.turns.journal import UserSaid

CONTINUED = "[continued] "  # Hermes' mark of a further part of a long message
_LABEL = re.compile(r"\A[^\n:]{1,40}: ")  # Hermes' word for the speaker, before the words
_LINE = re.compile(r"\[[0-9T:.Z-]+\] .*? \((\w+)\): (.*)")  # of a document that Holdfast wrote
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """The users' messages that one provider lists, by session of Hermes and by place of the provider."""

    provider: str
    by_session: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_place: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvidenceOrigin:
    """Where the turns of a session may be: under its id in Hermes, and at the place of its chat."""

    session: str
    place: str = ""


class DeliveryEvidence:
    """Which providers have a turn. Asked for every turn of every session, once and in order."""

    def __init__(self, kept: Iterable[KeptMessages] = (), *, assumed: frozenset[str] = frozenset()) -> None:
        """`assumed` are providers that cannot be asked and that Hermes delivered to."""
        self._assumed = assumed
        self._pools = {one.provider: _pools(one) for one in kept}
        self.found = dict.fromkeys(sorted({*self._pools, *assumed}), 0)  # turns by provider

    def holders(self, origin: EvidenceOrigin, turn: ImportedTurn) -> frozenset[str]:
        """The providers that have the turn."""
        said = [one.body.text for one in turn.entries if isinstance(one.body, UserSaid) and one.body.text.strip()]
        words = fingerprint(said[-1]) if said else b""
        held = {name for name in self._pools if words and self._take(name, origin, words)} | self._assumed
        for name in held:
            self.found[name] += 1
        return frozenset(held)

    def _take(self, provider: str, origin: EvidenceOrigin, words: bytes) -> bool:
        by_session, by_place = self._pools[provider]
        own = (by_session.get(origin.session), by_place.get(origin.session))
        chats = [by_place.get(origin.place)] if origin.place else by_place.values()
        for pool in (*own, *chats):
            if pool is not None and pool[words] > 0:
                pool[words] -= 1
                return True
        return False


def _pools(kept: KeptMessages) -> tuple[dict[str, Counter[bytes]], dict[str, Counter[bytes]]]:
    """The messages that prove a turn, by session and by place."""
    by_session, by_place = (
        {name: Counter(map(fingerprint, said)) for name, said in listed.items()}
        for listed in (kept.by_session, kept.by_place)
    )
    return by_session, by_place


def fingerprint(text: str) -> bytes:
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
