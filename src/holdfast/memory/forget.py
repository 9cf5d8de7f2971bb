"""Forgetting: the words that are erased, and when a request is done (D25).

Rule 1: words are erased, envelopes stay: who spoke when, in which turn and session, and with which result.
Rule 2: a person's words are their messages, their observed messages, and the agent's answers in their turns. Messages
        of other people stay, byte for byte.
Rule 3: words that an agent passed to another agent are followed across all agents: the message, the turn that it
        starts, the answer, the turn that the answer starts, and so on.
Rule 4: text that the agent wrote for others while it could know the words is erased if it repeats them (quotation.py).
Rule 5: a recalled text may combine the words of several people, and its sources are unknown: every copy is erased. No
        later context contains it, so nothing is lost.
Rule 6: a request is done when every place has returned its receipt. Until then it is pending, however long a provider
        is down.
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
    """A request to forget a session or a person. Without an agent, all agents forget the person."""

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
    """The erasure at one provider: everything that it was sent for one place."""

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
    """The state of a request. The journal was blanked in the transaction that stored the request."""

    id: ForgetId
    agent: AgentName | None
    kind: ForgetKind
    subject: str
    requested_at: Instant
    blanked: Mapping[str, int] = field(default_factory=dict)  # blanked items by kind
    kept: Mapping[str, int] = field(default_factory=dict)  # examined items that stay, by kind (KEPT)
    scrubbed_at: Instant | None = None  # when the store's files were scrubbed
    scrub_receipt: str | None = None
    swept_at: Instant | None = None  # when the copies that recall made before the providers erased were blanked
    parts: tuple[ErasurePart, ...] = ()

    @property
    def done(self) -> bool:
        return self.scrubbed_at is not None and self.swept_at is not None and all(part.done for part in self.parts)


# The data that stays and the reason, by its name in reports. The counted kinds of a person are in `kept`.
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
    """A message in a journal: whether it is the person's own, or an agent passed it on with their words."""

    seq: int
    turn: int
    is_own: bool
    is_passed: bool = False

    @property
    def goes(self) -> bool:
        return self.is_own or self.is_passed


def turns_of(owned: Iterable[int], heard: Iterable[HeardWords]) -> frozenset[int]:
    """The turns of one session that are erased as a whole: those that the person owns (`owned`), those with messages of
    the person only (another person may have retried one), and those that answer a message passed on by an agent."""
    heard = [one for one in heard if one.turn]
    others = {one.turn for one in heard if not one.goes}
    passed = {one.turn for one in heard if one.is_passed}
    return frozenset(owned) | passed | ({one.turn for one in heard} - others)
