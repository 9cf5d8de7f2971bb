"""Delivery: which entries become due for which provider, and what becomes of an attempt.

Rule 1: a unit is a range of a stream, never a copy. It never spans a change of place or principal (D18).
Rule 2: scheduling moves `scheduled_seq` by compare-and-set; what is beyond it is pending by definition, so no
        buffer exists that could be lost.
Rule 3: an undone turn is passed over; a boundary schedules everything that is left.
Rule 4: the mark moves when the provider acknowledged. What cannot be proved landed or not is uncertain, and the
        provider is asked before anything is sent again (D20). Unreachable never parks; refused parks at once (D21).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, Provider, SessionId
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.memory.naming import NOWHERE, CallerDirectory, Naming, NamingInputs, PerSession


class Op(Enum):
    RETAIN = "retain"  # turns of a session
    RETRACT = "retract"  # turns that were undone after they had been sent
    REMEMBER = "remember"  # an operation on an agent's own memory
    ERASE = "erase"  # everything of a session, or of a person (D25)


class DeliveryState(Enum):
    SCHEDULED = "scheduled"
    SENDING = "sending"
    UNCERTAIN = "uncertain"
    DELIVERED = "delivered"
    PARKED = "parked"
    DROPPED = "dropped"
    RETRACTED = "retracted"


OPEN = frozenset({DeliveryState.SCHEDULED, DeliveryState.SENDING, DeliveryState.UNCERTAIN})


def delivery_state(text: str | None) -> str | None:
    """A state that somebody wrote, checked."""
    known = [state.value for state in DeliveryState]
    if text is not None and text not in known:
        raise InvalidInput(f"there is no delivery state {text[:40]!r}; there are {', '.join(known)}", state=text[:40])
    return text


# --- scheduling ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """When a provider gets the turns of an agent, and under which names."""

    provider: Provider
    every_turns: int = 1
    max_wait_ms: int | None = None  # pending turns become due after this long, however few they are
    naming: Naming = field(default_factory=PerSession)
    turns: bool = True  # whether it takes the turns of conversations
    memory: bool = False  # whether operations on the agent's memory are mirrored to it (R20)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSpan:
    """A committed turn that no unit holds yet."""

    n: int
    first_seq: int
    last_seq: int
    place: str
    principal: Principal
    title: str | None = None
    where: CallerDirectory = NOWHERE
    undone: bool = False

    def joins(self, last: "TurnSpan") -> bool:
        """Whether one unit may hold both: nothing that names are made of changed between them (D18)."""
        return self.n == last.n + 1 and (self.place, self.principal, self.title, self.where) == (
            last.place,
            last.principal,
            last.title,
            last.where,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    from_turn: int
    through_turn: int
    from_seq: int
    through_seq: int
    place: str
    principal: Principal


def due_units(pending: Sequence[TurnSpan], policy: DeliveryPolicy, *, boundary: bool) -> tuple[Unit, ...]:
    """The units that are due now. All pending turns become due together, or none of them."""
    counted = [span for span in pending if not span.undone]
    if not counted or (len(counted) < policy.every_turns and not boundary):
        return ()
    runs: list[list[TurnSpan]] = []
    for span in counted:
        if runs and span.joins(runs[-1][-1]):
            runs[-1].append(span)
        else:
            runs.append([span])
    return tuple(_unit(run) for run in runs)


def _unit(run: Sequence[TurnSpan]) -> Unit:
    return Unit(
        from_turn=run[0].n,
        through_turn=run[-1].n,
        from_seq=run[0].first_seq,
        through_seq=run[-1].last_seq,
        place=run[0].place,
        principal=run[0].principal,
    )


# --- what a provider is handed -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenLine:
    """One thing said. `speaker` is a principal, or the agent's name where the role is assistant."""

    role: str  # user, assistant
    speaker: str
    text: str
    at: Instant
    seq: int
    message: str = ""  # the sender's id of it


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidTurn:
    n: int
    lines: tuple[SpokenLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNote:
    """One operation on an agent's memory (R20)."""

    seq: int
    target: str  # memory, user
    op: str  # add, replace, remove
    text: str  # what holds now; empty for remove
    old_text: str = ""  # what held before, for replace and remove
    subject: str = ""  # under which it is kept
    holder: str | None = None  # whom it belongs to, where that is not its subject (visibility.py)
    old_holder: str | None = None  # the same of what held before
    at: Instant = Instant(0)

    @property
    def scope(self) -> str:
        """Where it may be shown."""
        return self.subject if self.holder is None else self.holder

    @property
    def old_scope(self) -> str:
        """Where that may be shown which it replaces or removes."""
        return self.subject if self.old_holder is None else self.old_holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Whom or what to erase: a session, or everything that a principal said to the agent."""

    agent: AgentName
    session: SessionId | None = None
    principal: Principal | None = None
    places: tuple[str, ...] = ()  # every place that the provider was sent anything of it
    shared: tuple[DeliveryId, ...] = ()  # units that also hold others' words: erased by who spoke, or whole
    deliveries: tuple[DeliveryId, ...] = ()  # every unit it was sent of it
    scopes: tuple[str, ...] = ()  # of the notes among them: a note there that is none of `holds` is to go
    holds: tuple[MemoryNote, ...] = ()  # every note that still holds in these scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One delivery with its words, rendered from the journal. The same for every attempt, but for `attempt`.

    `id` is the idempotency key: permanent, unique per provider, never reused for other words.
    RETAIN: `turns` are the unit's turns. RETRACT: `of` is the id of the unit, `gone` its turns that were taken back,
    and `turns` those of the unit that remain. REMEMBER: `note`. ERASE: `erasure`.
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
    sent_at: Instant = Instant(0)  # when the attempt before this one began; 0 without one

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


# --- what came of it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider acknowledged that it has the words, in a way that cannot be taken back by a crash of its own."""

    receipt: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The provider will never take it as it is; nothing of it landed."""

    reason: str
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # what it answered, for the operator


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nothing landed, and the reason is not the words: it is tried again, however long that takes.

    `suspect` says that the provider answered with a fault that may be about these very words.
    """

    reason: str
    retry_after_ms: int | None = None
    suspect: bool = False
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # what it answered, for the operator


@dataclass(frozen=True, slots=True)
class Uncertain:
    """It may have landed. Nothing is sent again before the provider has been asked.

    `suspect` is as above. `away` says that the provider, or the way to it, failed, whatever became of these words.
    """

    reason: str
    retry_after_ms: int | None = None
    suspect: bool = False
    away: bool = False
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)  # what it answered, for the operator


Outcome: TypeAlias = Delivered | Refused | Unreachable | Uncertain


class Landing(Enum):
    LANDED = "landed"
    ABSENT = "absent"  # counts only after the provider's quiet period since the attempt
    POSSIBLE = "possible"  # nobody can say


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
    means: str | None = None  # what the provider's `delivered` says, of one that is
