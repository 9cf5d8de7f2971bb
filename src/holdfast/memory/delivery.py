"""Deliveries: the units that are due for a provider, their places there, the parcels it gets, and the outcomes.

Rule 1: a unit is a range of a stream, never a copy. It never spans a change of place or principal (D18).
Rule 2: scheduling moves `scheduled_seq` by compare-and-set; entries beyond it are pending by definition, so there is
        no buffer to lose.
Rule 3: scheduling skips an undone turn; a boundary schedules all pending turns.
Rule 4: the settled mark moves when the provider acknowledges. A delivery that may have landed is uncertain, and the
        provider is asked before anything is resent (D20). Unreachable never parks; refused parks at once (D21).
Rule 5: a place is a pure function of inputs that are stored with the turn, so it never depends on later events (D18).
        Inputs that must stay separate never get equal names (R17).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, Provider, SessionId
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError


class Op(Enum):
    RETAIN = "retain"  # turns of a session
    RETRACT = "retract"  # turns that were undone after they were sent
    REMEMBER = "remember"  # an operation on an agent's own memory
    ERASE = "erase"  # all data of a session or of a person (D25)


class DeliveryState(Enum):
    SCHEDULED = "scheduled"
    SENDING = "sending"
    UNCERTAIN = "uncertain"
    DELIVERED = "delivered"
    PARKED = "parked"
    DROPPED = "dropped"
    RETRACTED = "retracted"


OPEN = frozenset({DeliveryState.SCHEDULED, DeliveryState.SENDING, DeliveryState.UNCERTAIN})


# --- naming --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallerDirectory:
    """The working directory of a message's sender: absolute paths, or empty without one."""

    directory: str = ""
    repo: str = ""  # the repository that contains the directory


NOWHERE = CallerDirectory()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamingInputs:
    """All inputs of a name, as of the commit of the turn."""

    agent: AgentName
    session: SessionId
    principal: Principal
    address: str = ""  # the mailbox's first address; empty for writers without a mailbox
    parent: SessionId | None = None
    title: str | None = None
    directory: str = ""  # the sender's working directory, if a terminal or a program sent it
    repo: str = ""


class Naming(Protocol):
    """The naming of one configured provider. Implementations are frozen values with value equality."""

    def place(self, inputs: NamingInputs) -> str:
        """The lane of a conversation's turns: the provider-side object whose order is visible (D17)."""

    def memory_place(self, agent: AgentName, subject: str) -> str:
        """The lane of an agent's notes about one subject, which is empty for the agent itself."""


@dataclass(frozen=True, slots=True)
class PerSession:
    """One place per session, for providers that separate sessions and show no names."""

    def place(self, inputs: NamingInputs) -> str:
        return inputs.session

    def memory_place(self, agent: AgentName, subject: str) -> str:
        return f"memory:{agent}:{subject}"


@dataclass(frozen=True, slots=True)
class PerAddress(PerSession):
    """One place per chat across its sessions (R18); one per session for writers without a mailbox."""

    def place(self, inputs: NamingInputs) -> str:
        return inputs.address or inputs.session


# --- scheduling ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """The schedule and the naming of an agent's deliveries to one provider."""

    provider: Provider
    every_turns: int = 1
    max_wait_ms: int | None = None  # pending turns become due after this time, regardless of their number
    naming: Naming = field(default_factory=PerSession)
    turns: bool = True  # whether the provider accepts turns of conversations
    memory: bool = False  # whether operations on the agent's notes are mirrored to the provider (R20)


class TurnSpan(NamedTuple):
    """A committed turn that is in no unit yet, with the inputs of its name."""

    n: int
    first_seq: int
    last_seq: int
    place: str  # the address, until the provider's naming replaces it
    principal: Principal
    title: str | None = None
    places: str | None = None  # the place at each provider that was configured at the turn's commit, as JSON
    directory: str | None = None
    repo: str | None = None
    undone: bool = False

    def joins(self, last: "TurnSpan") -> bool:
        """Whether one unit may contain both: no input of the naming changed between them (D18)."""
        return self.n == last.n + 1 and self.named_by == last.named_by

    @property
    def named_by(self) -> tuple[object, ...]:
        return self.place, self.principal, self.title, self.directory or "", self.repo or ""


class Unit(NamedTuple):
    from_turn: int
    through_turn: int
    from_seq: int
    through_seq: int
    place: str
    principal: Principal


def due_units(pending: Sequence[TurnSpan], policy: DeliveryPolicy, *, boundary: bool) -> tuple[Unit, ...]:
    """The units that are due now. The pending turns become due all together or not at all."""
    counted = [span for span in pending if not span.undone]
    if not counted or (len(counted) < policy.every_turns and not boundary):
        return ()
    runs: list[list[TurnSpan]] = []
    for span in counted:
        if runs and span.joins(runs[-1][-1]):
            runs[-1].append(span)
        else:
            runs.append([span])
    return tuple(
        Unit(
            from_turn=run[0].n,
            through_turn=run[-1].n,
            from_seq=run[0].first_seq,
            through_seq=run[-1].last_seq,
            place=run[0].place,
            principal=run[0].principal,
        )
        for run in runs
    )


# --- parcels -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenLine:
    """One message. `speaker` is a principal, or the agent's name if the role is assistant."""

    role: str  # user, assistant
    speaker: str
    text: str
    at: Instant
    seq: int
    message: str = ""  # the sender's message id


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidTurn:
    n: int
    lines: tuple[SpokenLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNote:
    """One operation on an agent's notes (R20)."""

    seq: int
    target: str  # memory, user
    op: str  # add, replace, remove
    text: str  # the new text; empty for remove
    old_text: str = ""  # the previous text, for replace and remove
    subject: str = ""  # the subject that it is stored under
    holder: str | None = None  # its owner, if that is not the subject (visibility.py)
    old_holder: str | None = None  # the owner of the previous text
    at: Instant = Instant(0)

    @property
    def scope(self) -> str:
        """The scope that may see the note."""
        return self.subject if self.holder is None else self.holder

    @property
    def old_scope(self) -> str:
        """The scope that may see the replaced or removed text."""
        return self.subject if self.old_holder is None else self.old_holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The subject of an erasure: a session, or everything that a principal said to the agent."""

    agent: AgentName
    session: SessionId | None = None
    principal: Principal | None = None
    places: tuple[str, ...] = ()  # every place that the provider was sent its units for
    shared: tuple[DeliveryId, ...] = ()  # units that also contain other speakers: erase by speaker, or the whole unit
    deliveries: tuple[DeliveryId, ...] = ()  # every unit of the subject that the provider was sent
    scopes: tuple[str, ...] = ()  # the scopes of notes among them: erase every note there that is not in `holds`
    holds: tuple[MemoryNote, ...] = ()  # all current notes of these scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One delivery with its content, rendered from the journal. Only `attempt` and `sent_at` differ between attempts.

    `id` is the idempotency key: permanent, unique per provider, never reused for other content.
    RETAIN: `turns` are the unit's turns. RETRACT: `of` is the id of the unit, `gone` its undone turns, and `turns` its
    remaining turns. REMEMBER: `note`. ERASE: `erasure`.
    """

    id: DeliveryId
    op: Op
    provider: Provider
    place: str
    naming: NamingInputs
    turns: tuple[SaidTurn, ...] = ()
    of: DeliveryId | None = None
    gone: tuple[int, ...] = ()
    note: MemoryNote | None = None
    erasure: Erasure | None = None
    attempt: int = 1
    sent_at: Instant = Instant(0)  # start of the previous attempt; 0 if there was none

    @property
    def session(self) -> SessionId:
        return self.naming.session

    @property
    def principal(self) -> Principal:
        return self.naming.principal

    @property
    def from_turn(self) -> int:
        return self.turns[0].n if self.turns else 0

    @property
    def through_turn(self) -> int:
        return self.turns[-1].n if self.turns else 0


# --- outcomes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider acknowledged that it stored the parcel durably: a crash of the provider does not lose it."""

    receipt: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The provider will never accept the parcel as it is; no part of it landed."""

    reason: str
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # its error, for the operator


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nothing landed, and the content is not the reason: the parcel is retried without limit.

    `suspect` says that the provider answered with an error that may be caused by the content.
    """

    reason: str
    retry_after_ms: int | None = None
    suspect: bool = False
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # its error, for the operator


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The parcel may have landed. It is not resent before the provider is asked.

    `suspect` is as above. `away` says that the provider or the network failed, independently of the content.
    """

    reason: str
    retry_after_ms: int | None = None
    suspect: bool = False
    away: bool = False
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # its error, for the operator


Outcome: TypeAlias = Delivered | Refused | Unreachable | Uncertain


class Landing(Enum):
    LANDED = "landed"
    ABSENT = "absent"  # counts only after the quiet period since the attempt
    POSSIBLE = "possible"  # the provider cannot tell


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    n: int
    id: str
    agent: str
    provider: str
    place: str
    op: str
    state: str
    attempt: int
    stream: str
    from_turn: int
    through_turn: int
    late: bool
    at: Instant
    due_at: Instant
    receipt: str | None
    reason: str | None
    decided_by: str | None = None  # the person who gave it up, or who said that it arrived
    means: str | None = None  # the provider's meaning of `delivered`; only for a delivered one
