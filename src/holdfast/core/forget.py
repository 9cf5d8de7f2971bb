"""Forgetting: whose words go, and when it may be called done (D25).

Rule 1: words go, envelopes stay: who spoke when, in which turn and session, and what became of it.
Rule 2: a person's words are what they said, what was observed of them, and what the agent answered in their turns.
        What others said stays, byte for byte.
Rule 3: a recalled text is a copy of somebody's words, and nobody can say whose all of it was: every copy goes. It is
        no part of any later context, so nothing is missed.
Rule 4: it is done when every place has given its receipt. Until then it is pending, however long a provider is down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from holdfast.core.delivery import DeliveryState
from holdfast.core.errors import InvalidInput
from holdfast.core.ids import AgentName, DeliveryId, ForgetId, Instant, Principal, Provider, SessionId
from holdfast.core.journal import Entry, Forgotten, Observed, Undone, UserSaid
from holdfast.core.key import agent_name, check_part


class Kind(Enum):
    SESSION = "session"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """Whom or what to forget. Without an agent a person is forgotten by all of them."""

    id: ForgetId
    agent: AgentName | None = None
    session: SessionId | None = None
    person: Principal | None = None

    def __post_init__(self) -> None:
        check_part("forget id", self.id)
        if (self.session is None) == (self.person is None):
            raise InvalidInput("say what to forget: either a session or a person", forget=self.id)
        check_part(self.kind.value, self.subject)
        if self.agent is not None:
            agent_name(self.agent)

    @property
    def kind(self) -> Kind:
        return Kind.PERSON if self.session is None else Kind.SESSION

    @property
    def subject(self) -> str:
        return str(self.person if self.session is None else self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePart:
    """One provider's share: everything that it was sent for one place."""

    delivery: DeliveryId
    agent: AgentName
    provider: Provider
    place: str
    state: DeliveryState
    attempt: int = 0
    due_at: Instant = Instant(0)
    receipt: str | None = None
    reason: str | None = None

    @property
    def done(self) -> bool:
        return self.state is DeliveryState.DELIVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """Where a request stands. The journal was blanked in the transaction that took it."""

    id: ForgetId
    agent: AgentName | None
    kind: Kind
    subject: str
    requested_at: Instant
    blanked: Mapping[str, int] = field(default_factory=dict)  # how many of each kind of thing
    scrubbed_at: Instant | None = None  # no byte is left in the store's own files
    scrub_receipt: str | None = None
    swept_at: Instant | None = None  # what recall had copied while providers still had it is blanked too
    parts: tuple[ErasurePart, ...] = ()

    @property
    def done(self) -> bool:
        return self.scrubbed_at is not None and self.swept_at is not None and all(part.done for part in self.parts)


def words_of(person: Principal, turns: frozenset[int], entries: Iterable[Entry]) -> frozenset[int]:
    """The entries of one session that hold a person's words; `turns` are theirs."""
    return frozenset(entry.seq for entry in entries if _is_theirs(person, entry, turns))


def turns_of(person: Principal, principals: Mapping[int, str], entries: Sequence[Entry]) -> frozenset[int]:
    """Turns that they own, and turns in which nobody but them is heard: somebody else may have retried theirs.

    `principals` says whose each turn of the session is.
    """
    speakers: dict[int, set[str]] = {}
    for entry in entries:
        if isinstance(entry.body, UserSaid):
            speakers.setdefault(entry.turn, set()).add(entry.body.principal)
    owned = {n for n, principal in principals.items() if principal == person}
    return frozenset(owned | {n for n, heard in speakers.items() if heard == {person}})


def _is_theirs(person: Principal, entry: Entry, theirs: frozenset[int]) -> bool:
    match entry.body:
        case UserSaid(principal=speaker) | Observed(principal=speaker):
            return speaker == person
        case Undone() | Forgotten():
            return False
        case _:
            return entry.turn in theirs
