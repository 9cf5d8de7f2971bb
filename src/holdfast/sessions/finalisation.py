"""Finish: how an epoch of a session ends, step by step, exactly once.

Rule 1: the end of an epoch is one row, made in the transaction that ends it, unique by (session, epoch).
Rule 2: everything that moves it from step to step is in TRANSITIONS. Each step is durable, with its result, before the
        next one begins; whoever takes the row over goes on from the step that it finds.
Rule 3: once an answer is stored the model is not asked again, unless the answer itself was forgotten. Memory is written
        under the row's own origin, in the same transaction as the step that says so.
Rule 4: a message that comes before anybody has taken the row up cancels it, and its range goes to the next epoch.
        Later, extraction ends on the range that was frozen while the session goes on in its next epoch.

Between the model's answer and its storing a crash costs one more call. No fence can reach that (D24).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.kernel.errors import FinalisationNotFound, InvalidInput, InvariantBroken
from holdfast.kernel.ids import AgentName, Instant, NodeId, Principal, SessionId
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.sessions.session import Purpose

EPOCH_DIGITS_MAX = 9


class FinishStep(Enum):
    BEGUN = "begun"  # the range is frozen; the model has not answered
    ASKED = "asked"  # its answer is stored
    APPLIED = "applied"  # memory holds what fits of it
    CLOSED = "closed"
    FAILED = "failed"  # attempts ran out; the history is whole, and it can be taken up again
    CANCELLED = "cancelled"  # a message came first; the range went to the next epoch


class FinishEvent(Enum):
    ANSWERED = "finish.answered"
    APPLIED = "finish.applied"
    EMPTY = "finish.empty"  # there is nothing to extract from, so nobody is asked
    CLOSED = "finish.closed"
    POSTPONED = "finish.postponed"  # an attempt failed, and there will be another
    GAVE_UP = "finish.gave_up"
    FORGOTTEN = "finish.forgotten"  # somebody's words in the stored answer must go, so what remains is asked about anew
    REOPENED = "finish.reopened"  # a message came before the row was taken up
    REPEATED = "finish.repeated"  # an operator wants a failed one again, from the start
    TAKEN_UP = "finish.taken_up"  # the same where an answer is stored: nobody is asked again


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
    """The step after an event. An event the step cannot see is our bug, never an outcome."""
    after = TRANSITIONS[step].get(event)
    if after is None:
        raise InvariantBroken(f"{event.value} while {step.value}")
    return after


def put_off(row: "Finalisation", policy: "FinishPolicy") -> FinishEvent:
    """What a failed attempt leads to. What memory holds already is never given up, only closed later."""
    spent = row.attempts >= policy.attempts_max and FinishEvent.GAVE_UP in TRANSITIONS[row.step]
    return FinishEvent.GAVE_UP if spent else FinishEvent.POSTPONED


def origin(session: SessionId, epoch: int) -> str:
    """The row's id, and the origin of what it writes to memory: a second write under it changes nothing."""
    return f"finish:{session}:{epoch}"


def parse_origin(text: str) -> tuple[SessionId, int]:
    """The session and the epoch. Raises `FinalisationNotFound`."""
    word, _, rest = text.partition(":")
    session, _, epoch = rest.rpartition(":")
    if word != "finish" or not session or not (epoch.isascii() and epoch.isdigit() and len(epoch) <= EPOCH_DIGITS_MAX):
        why = f"{text[:80]!r} is no finalisation; they look like finish:ses_01jd...:1"
        raise FinalisationNotFound(why, finalisation=text[:80])
    return SessionId(session), int(epoch)


def finish_state(text: str | None) -> str | None:
    """A state that somebody wrote, checked."""
    known = [step.value for step in FinishStep]
    if text is not None and text not in known:
        why = f"there is no state {text[:40]!r} of a finalisation; there are {', '.join(known)}"
        raise InvalidInput(why, state=text[:40])
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishPolicy:
    attempts_max: int = 5  # claims, those of processes that died included
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=5_000, delay_ms_max=600_000))
    look_every_ms: int = 30_000  # for sessions that have expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The wish to end an epoch that has expired. It holds only if the session was not active after `active_before`."""

    session: SessionId
    epoch: int
    cause: str  # idle, daily
    active_before: Instant
    policies: tuple[DeliveryPolicy, ...] = ()  # how the tail that the end makes due is named


@dataclass(frozen=True, slots=True)
class NotEnded:
    """The session goes on. `why` is stable: gone, moved, active, in_turn, claimed, mail."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A session that looks as if nobody will come back to it."""

    session: SessionId
    epoch: int
    active_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalisation:
    """The end of one epoch, as the ledger has it. Its owner may record steps while `fence` is the row's."""

    session: SessionId
    epoch: int
    agent: AgentName
    principal: Principal
    purpose: Purpose
    cause: str  # new, idle, daily
    from_seq: int
    through_seq: int  # below from_seq where nothing was said since the last end
    said_at: Instant  # of the newest entry of the range
    step: FinishStep
    attempts: int
    fence: int
    owner: NodeId | None
    due_at: Instant
    started_at: Instant
    ended_at: Instant | None = None
    model: str = ""
    reason: str = ""  # why the newest attempt failed; never people's words
    answer: bytes = b""
    result: bytes = b""

    @property
    def origin(self) -> str:
        return origin(self.session, self.epoch)

    @property
    def ended(self) -> bool:
        return self.step in ENDED

    @property
    def outcome(self) -> str:
        """running, done, nothing, failed or cancelled."""
        if self.step is FinishStep.CLOSED:
            return "done" if self.answer else "nothing"
        return self.step.value if self.ended else "running"
