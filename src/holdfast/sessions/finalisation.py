"""Finalisation: how an epoch of a session ends, step by step, exactly once, and when it expires.

Rule 1: the end of an epoch is one row, inserted by the transaction that ends it, unique by (session, epoch).
Rule 2: TRANSITIONS holds every change of step. Each step is durable, with its result, before the next one begins; a
        process that takes over the row continues from its current step.
Rule 3: once an answer is stored, the model is not called again unless the answer was forgotten. Memory is written under
        the row's own origin, in the transaction that records the step.
Rule 4: a message that arrives before the row is claimed cancels it, and its range goes to the next epoch. After that,
        extraction finishes on the frozen range while the session continues in its next epoch.
Rule 5: a session that has been inactive for long expires. The decision uses only the store's time and the session's
        last activity; no state is kept between two checks.
Rule 6: a local day has exactly one boundary, even on a day with a clock change. A time that the change skips is
        computed with the offset before the change, so the boundary falls later by the skipped interval; a time that
        occurs twice counts the first time.
Rule 7: time zone rules are files of the machine, so they arrive as a function from an instant to an offset.

A crash between the model's answer and its storage costs one more call. No fence can prevent that (D24).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.kernel.dates import Offset
from holdfast.kernel.errors import FinalisationNotFound, InvariantBroken
from holdfast.kernel.ids import AgentName, Instant, NodeId, Principal, SessionId
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.sessions.session import Purpose
from holdfast.turns.policy import DAY_MS, ExpiryPolicy

# --- expiry --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """Expiry instants: a session that was last active at or before one of them has expired; None if not configured."""

    idle: Instant | None = None
    daily: Instant | None = None

    @property
    def latest(self) -> Instant | None:
        return max((each for each in (self.idle, self.daily) if each is not None), default=None)

    def cause(self, active_at: Instant) -> str:
        """The cause of expiry for a session that was last active at this instant."""
        return "idle" if self.idle is not None and active_at <= self.idle else "daily"


def cutoffs(policy: ExpiryPolicy, now: Instant, offset: Offset) -> Cutoffs:
    idle = None if policy.idle_ms is None else Instant(now - policy.idle_ms)
    daily = None if policy.daily_ms is None else Instant(last_boundary(now, policy.daily_ms, offset) - 1)
    return Cutoffs(idle, daily)


def expires_at(policy: ExpiryPolicy, active_at: Instant, offset: Offset) -> tuple[Instant, str] | None:
    """When a session that is not used again ends, and why; None if it never does."""
    ends = list[tuple[Instant, str]]()
    if policy.idle_ms is not None:
        ends.append((Instant(active_at + policy.idle_ms), "idle"))
    if policy.daily_ms is not None:
        today = (active_at + offset(active_at)) // DAY_MS
        around = [boundary_of(day, policy.daily_ms, offset) for day in range(today - 1, today + 3)]
        ends.append((min(boundary for boundary in around if boundary > active_at), "daily"))
    return min(ends, default=None)


def last_boundary(now: Instant, daily_ms: int, offset: Offset) -> Instant:
    """The newest daily boundary that is not in the future."""
    today = (now + offset(now)) // DAY_MS
    # A skipped time may lie in the next local day, so the adjacent days are checked too.
    around = [boundary_of(day, daily_ms, offset) for day in range(today - 2, today + 2)]
    return max(boundary for boundary in around if boundary <= now)


def boundary_of(day: int, daily_ms: int, offset: Offset) -> Instant:
    """The instant at which a local day, counted from 1970-01-01, reaches its time of day."""
    local = day * DAY_MS + daily_ms
    before, after = offset(Instant(local - DAY_MS)), offset(Instant(local + DAY_MS))
    met = [Instant(local - ahead) for ahead in (before, after) if offset(Instant(local - ahead)) == ahead]
    return min(met, default=Instant(local - before))


EPOCH_DIGITS_MAX = 9


# --- steps ---------------------------------------------------------------------------------------------


class FinishStep(Enum):
    BEGUN = "begun"  # the range is frozen; the model has not answered
    ASKED = "asked"  # the model's answer is stored
    APPLIED = "applied"  # the fitting part is in memory
    CLOSED = "closed"
    FAILED = "failed"  # attempts ran out; the history is intact, and an operator can retry
    CANCELLED = "cancelled"  # a message arrived first; the range went to the next epoch


class FinishEvent(Enum):
    ANSWERED = "finish.answered"
    APPLIED = "finish.applied"
    EMPTY = "finish.empty"  # the range has nothing to extract, so the model is not called
    CLOSED = "finish.closed"
    POSTPONED = "finish.postponed"  # an attempt failed, and another will follow
    GAVE_UP = "finish.gave_up"
    FORGOTTEN = "finish.forgotten"  # the stored answer held erased words; the model is asked again about the rest
    REOPENED = "finish.reopened"  # a message arrived before the row was claimed
    REPEATED = "finish.repeated"  # an operator restarts a failed finalisation
    TAKEN_UP = "finish.taken_up"  # an operator resumes a failed finalisation that has a stored answer


TRANSITIONS: Mapping[FinishStep, Mapping[FinishEvent, FinishStep]] = {
    FinishStep.BEGUN: {
        FinishEvent.ANSWERED: FinishStep.ASKED,
        FinishEvent.EMPTY: FinishStep.CLOSED,
        FinishEvent.POSTPONED: FinishStep.BEGUN,
        FinishEvent.GAVE_UP: FinishStep.FAILED,
        FinishEvent.REOPENED: FinishStep.CANCELLED,
    },
    FinishStep.ASKED: {
        FinishEvent.APPLIED: FinishStep.APPLIED,
        FinishEvent.FORGOTTEN: FinishStep.BEGUN,
        FinishEvent.POSTPONED: FinishStep.ASKED,
        FinishEvent.GAVE_UP: FinishStep.FAILED,
    },
    FinishStep.APPLIED: {
        FinishEvent.CLOSED: FinishStep.CLOSED,
        FinishEvent.POSTPONED: FinishStep.APPLIED,
    },
    FinishStep.CLOSED: {},
    FinishStep.FAILED: {
        FinishEvent.REPEATED: FinishStep.BEGUN,
        FinishEvent.TAKEN_UP: FinishStep.ASKED,
    },
    FinishStep.CANCELLED: {},
}
ENDED = frozenset({FinishStep.CLOSED, FinishStep.FAILED, FinishStep.CANCELLED})


def advance(step: FinishStep, event: FinishEvent) -> FinishStep:
    """The step after an event. An event that the step does not allow is a bug, never an outcome."""
    after = TRANSITIONS[step].get(event)
    if after is None:
        raise InvariantBroken(f"{event.value} while {step.value}")
    return after


def put_off(row: "Finalisation", policy: "FinishPolicy") -> FinishEvent:
    """The event after a failed attempt. A finalisation whose notes are in memory never fails; it is closed later."""
    spent = row.attempts >= policy.attempts_max and FinishEvent.GAVE_UP in TRANSITIONS[row.step]
    return FinishEvent.GAVE_UP if spent else FinishEvent.POSTPONED


def parse_origin(text: str) -> tuple[SessionId, int]:
    """The session and the epoch of an origin. Raises `FinalisationNotFound`."""
    word, _, rest = text.partition(":")
    session, _, epoch = rest.rpartition(":")
    if word != "finish" or not session or not (epoch.isascii() and epoch.isdigit() and len(epoch) <= EPOCH_DIGITS_MAX):
        why = f"{text[:80]!r} is no finalisation; they look like finish:ses_01jd...:1"
        raise FinalisationNotFound(why, finalisation=text[:80])
    return SessionId(session), int(epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishPolicy:
    attempts_max: int = 5  # claims, including those of processes that died
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=5_000, delay_ms_max=600_000))
    look_every_ms: int = 30_000  # interval of the search for expired sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A request to end an expired epoch. It is valid only if the session was not active after `active_before`."""

    session: SessionId
    epoch: int
    cause: str  # idle, daily
    active_before: Instant
    policies: tuple[DeliveryPolicy, ...] = ()  # how the tail that becomes due is named


@dataclass(frozen=True, slots=True)
class NotEnded:
    """The session continues. `why` is stable: gone, moved, active, in_turn, claimed, mail."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """An inactive session that is a candidate for expiry."""

    session: SessionId
    epoch: int
    active_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalisation:
    """The end of one epoch, as stored. Its owner may record steps while `fence` equals the row's."""

    session: SessionId
    epoch: int
    agent: AgentName
    principal: Principal
    purpose: Purpose
    cause: str  # new, idle, daily
    from_seq: int
    through_seq: int  # below from_seq if the epoch has no entries
    said_at: Instant  # the time of the newest entry of the range
    step: FinishStep
    attempts: int
    fence: int
    owner: NodeId | None
    due_at: Instant
    started_at: Instant
    ended_at: Instant | None = None
    model: str = ""
    reason: str = ""  # why the newest attempt failed; never contains people's words
    answer: bytes = b""
    result: bytes = b""

    @property
    def origin(self) -> str:
        """The row's id, and the origin of its writes to memory: a second write under it changes nothing."""
        return f"finish:{self.session}:{self.epoch}"

    @property
    def ended(self) -> bool:
        return self.step in ENDED

    @property
    def outcome(self) -> str:
        """running, done, nothing, failed or cancelled."""
        if self.step is FinishStep.CLOSED:
            return "done" if self.answer else "nothing"
        return self.step.value if self.ended else "running"
