"""Evidence of delivery: which imported turns a memory provider has, by the users' messages that it lists.

Rule 1: one stored message proves one turn. Of two equal turns the earlier one is taken for the delivered one.
Rule 2: messages that name their session prove turns of that session alone, and messages of a chat prove turns of that
        chat.
Rule 3: old releases do not store a session's chat key. Such a session is looked for in every place, and only the place
        that has most of its messages proves its turns, one of them longer than what people say in several chats.
        Equal words elsewhere prove nothing: the turn is delivered, and counted as uncertain.
Rule 4: the message that was answered counts: Hermes offers a provider no other one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.hermes.importing.turns import ImportedTurn
from holdfast.hermes.kept_messages import SHORT_CHARS_MAX, KeptMessages, fingerprint
from holdfast.turns.journal import UserSaid


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
        self._located: dict[tuple[str, str], str] = {}
        self.found = dict.fromkeys(sorted({*self._pools, *assumed}), 0)  # turns by provider
        self.uncertain = dict.fromkeys(sorted(self._pools), 0)  # turns whose words are in a chat that may be another

    def must_locate(self, origin: EvidenceOrigin) -> bool:
        """Whether the messages of the session are needed to find its place."""
        return not origin.place and any(by_place for _, by_place in self._pools.values())

    def locate(self, session: str, said: Sequence[str]) -> None:
        """Find the place of a session without a chat key, by its users' messages."""
        words = Counter(map(fingerprint, said))
        long = {fingerprint(text) for text in said if len(text.strip()) > SHORT_CHARS_MAX}
        for provider, (_, by_place) in self._pools.items():
            shared = {place: sum((pool & words).values()) for place, pool in by_place.items() if _has_any(pool, long)}
            best = max(shared.values(), default=0)
            chosen = [place for place, count in shared.items() if count == best]
            if len(chosen) == 1:
                self._located[provider, session] = chosen[0]

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
        place = origin.place or self._located.get((provider, origin.session), "")
        for pool in (by_session.get(origin.session), by_place.get(origin.session), by_place.get(place)):
            if pool is not None and pool[words] > 0:
                pool[words] -= 1
                return True
        if not origin.place and any(pool[words] > 0 for pool in by_place.values()):
            self.uncertain[provider] += 1
        return False


def _has_any(pool: Counter[bytes], words: set[bytes]) -> bool:
    return any(pool[one] > 0 for one in words)


def _pools(kept: KeptMessages) -> tuple[dict[str, Counter[bytes]], dict[str, Counter[bytes]]]:
    """The messages that prove a turn, by session and by place."""
    by_session, by_place = (
        {name: Counter(map(fingerprint, said)) for name, said in listed.items()}
        for listed in (kept.by_session, kept.by_place)
    )
    return by_session, by_place
