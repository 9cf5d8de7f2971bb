"""What a context has computed about its entries, carried over to the next context of the session.

A context grows at its end. A turn therefore pays for its new entries and not for the length of the conversation: the
token sum, the size, the normalised texts and the messages of closed turns are continued. The memo may be lost at any
time. It belongs to one sequence of entries; for any other it starts anew.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.turns.journal import Entry

ENTRY_BYTES = 500  # an entry, its body and its message, without the text that body and message share
CHAR_BYTES = 3  # of a text that is not ASCII: between the two bytes of Cyrillic and the four of emoji
M = TypeVar("M")


@dataclass(slots=True)
class Grown(Generic[M]):
    """Collections that successive contexts of a session share, and the number of entries that each covers."""

    texts: set[int] = field(default_factory=set)
    texts_upto: int = 0
    turns: set[tuple[str | None, int]] = field(default_factory=set)
    turns_upto: int = 0
    rendered: dict[bool, list[M]] = field(default_factory=dict)
    rendered_upto: dict[bool, int] = field(default_factory=dict)


class ContextMemo(Generic[M]):
    """`M` is the type of a rendered message."""

    def __init__(self) -> None:
        self._entries: Sequence[Entry] = ()
        self._tokens = self._bytes = 0
        self._grown: Grown[M] = Grown()

    def extended(self, fresh: Sequence[Entry], entries: Sequence[Entry]) -> "ContextMemo[M]":
        """The memo of a context whose `entries` are those of this memo, followed by `fresh`."""
        memo: ContextMemo[M] = ContextMemo()
        memo._begin(entries, self._tokens + _tokens(fresh), self._bytes + _bytes(fresh), self._grown)
        return memo

    def tokens(self, entries: Sequence[Entry]) -> int:
        self._require(entries)
        return self._tokens

    def bytes(self, entries: Sequence[Entry]) -> int:
        """About how much memory the entries and their messages take."""
        self._require(entries)
        return self._bytes

    def texts(self, entries: Sequence[Entry], normalised: Callable[[str], str]) -> set[int]:
        """The hashes of the normalised texts."""
        self._require(entries)
        grown = self._grown
        if grown.texts_upto > len(entries):  # a later context of the session was there before
            return {hash(normalised(entry.text)) for entry in entries}
        grown.texts.update(hash(normalised(entry.text)) for entry in entries[grown.texts_upto :])
        grown.texts_upto = len(entries)
        return grown.texts

    def turns(self, entries: Sequence[Entry]) -> set[tuple[str | None, int]]:
        """The turns of the entries, as (session, number)."""
        self._require(entries)
        grown = self._grown
        if grown.turns_upto > len(entries):
            return {(entry.session, entry.turn) for entry in entries}
        grown.turns.update((entry.session, entry.turn) for entry in entries[grown.turns_upto :])
        grown.turns_upto = len(entries)
        return grown.turns

    def rendered(
        self, entries: Sequence[Entry], closed: int, *, named: bool, render: Callable[[Sequence[Entry]], Iterable[M]]
    ) -> Sequence[M]:
        """The messages of the first `closed` entries, whose turns are over. The caller does not change the result."""
        self._require(entries)
        messages = self._grown.rendered.setdefault(named, [])
        done = self._grown.rendered_upto.get(named, 0)
        if done > closed:
            return list(render(entries[:closed]))
        messages.extend(render(entries[done:closed]))
        self._grown.rendered_upto[named] = closed
        return messages

    def _require(self, entries: Sequence[Entry]) -> None:
        if self._entries is not entries:
            self._begin(entries, _tokens(entries), _bytes(entries), Grown())

    def _begin(self, entries: Sequence[Entry], tokens: int, size: int, grown: Grown[M]) -> None:
        self._entries, self._tokens, self._bytes, self._grown = entries, tokens, size, grown


def _tokens(entries: Sequence[Entry]) -> int:
    return sum(entry.tokens for entry in entries)


def _bytes(entries: Sequence[Entry]) -> int:
    return sum(ENTRY_BYTES + len(entry.text) * (1 if entry.text.isascii() else CHAR_BYTES) for entry in entries)
