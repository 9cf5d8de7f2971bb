"""Forgetting: whose words go, and when it may be called done (D25).

Rule 1: words go, envelopes stay: who spoke when, in which turn and session, and what became of it.
Rule 2: a person's words are what they said, what was observed of them, and what the agent answered in their turns.
        What others said stays, byte for byte.
Rule 3: words that an agent passed on to another agent are followed: the message, the turn there, its answer, the turn
        that the answer causes, and so on, over all agents. Provenance crosses agents because the words did.
Rule 4: what the agent told others while it could know the words goes where it repeats them (quotation.py).
Rule 5: a recalled text is a copy of somebody's words, and nobody can say whose all of it was: every copy goes. It is
        no part of any later context, so nothing is missed.
Rule 6: it is done when every place has given its receipt. Until then it is pending, however long a provider is down.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.inbox.address import agent_name, check_part
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName, DeliveryId, ForgetId, Instant, Principal, Provider, SessionId
from holdfast.memory.delivery import DeliveryState


class ForgetKind(Enum):
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
    def kind(self) -> ForgetKind:
        return ForgetKind.PERSON if self.session is None else ForgetKind.SESSION

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
    kind: ForgetKind
    subject: str
    requested_at: Instant
    blanked: Mapping[str, int] = field(default_factory=dict)  # how many of each kind of thing
    kept: Mapping[str, int] = field(default_factory=dict)  # what was looked at and stays, how many of each (KEPT)
    scrubbed_at: Instant | None = None  # no byte is left in the store's own files
    scrub_receipt: str | None = None
    swept_at: Instant | None = None  # what recall had copied while providers still had it is blanked too
    parts: tuple[ErasurePart, ...] = ()

    @property
    def done(self) -> bool:
        return self.scrubbed_at is not None and self.swept_at is not None and all(part.done for part in self.parts)


# What stays, by the name under which a report shows it, and why. Those of a person that are counted are in `kept`.
KEPT: dict[str, str] = {
    "names": "who spoke, when, in which chat, session and turn, and what became of it: envelopes without their words",
    "places": "names of chats and of providers' places; a place may be named after a title",
    "trail": "the audit trail and the record of this request: ids, times and counts",
}
KEPT_OF_PERSON: dict[str, str] = {
    "others_words": "what other people typed themselves, though it shares a word with what went: it is theirs",
    "answers": "answers to others that were given with the words at hand and repeat none of them",
}
KEPT_OF_SESSION: dict[str, str] = {
    "notes": "notes that were taken from the session; forget the person to erase those",
    "passed_on": "what was said about it in other sessions or to other agents; forget the person to have it followed",
}


@dataclass(frozen=True, slots=True)
class HeardWords:
    """A message in a journal: whether it is the person's own, or was passed on to this agent with their words."""

    seq: int
    turn: int
    is_own: bool
    is_passed: bool = False

    @property
    def goes(self) -> bool:
        return self.is_own or self.is_passed


def turns_of(owned: Iterable[int], heard: Iterable[HeardWords]) -> frozenset[int]:
    """The turns of one session that go as a whole: those that the person owns (`owned`), those in which nobody but them
    is heard (somebody else may have retried theirs), and those that answer what was passed on."""
    heard = [one for one in heard if one.turn]
    others = {one.turn for one in heard if not one.goes}
    passed = {one.turn for one in heard if one.is_passed}
    return frozenset(owned) | passed | ({one.turn for one in heard} - others)
