"""One turn: from the messages that open it to an outcome that can no longer change.

Rule 1: everything that moves a turn from phase to phase is in TRANSITIONS; the diagram in the docs and the
        exhaustive test are made from it.
Rule 2: nothing here knows the time, the store or the model; they arrive as events.
Rule 3: a crashed turn is not over: it stays in its phase, is resumed with attempt + 1 and goes on from its
        last journaled step. A call that was started and has no result is of unknown outcome.
Rule 4: a turn that waits for a human holds no claim (D9): nobody works on it, and its mailbox sleeps meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import Instant, MessageId, Principal, ReplyId, SessionId
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.memory.naming import NOWHERE, CallerDirectory
from holdfast.turns.approval import Approval, ApprovalAsk
from holdfast.turns.journal import AnyBody, AssistantSaid, Entry, ToolCall, ToolReturned, ToolStarted


class Phase(Enum):
    THINKING = "thinking"  # the model is being asked
    ACTING = "acting"  # tools are being run
    AWAITING = "awaiting"  # a human is to decide about a tool call
    COMMITTED = "committed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class TurnEvent(Enum):
    RESUMED = "turn.resumed"
    RECALLED = "turn.recalled"  # memory was looked up for it
    JOINED = "turn.joined"  # a steering message came in
    CALLED = "turn.called"  # the model asked for tools
    STEPPED = "turn.stepped"  # a tool started or returned, and others are still to come
    RETURNED = "turn.returned"  # every tool call has a result
    ASKED = "turn.asked"  # a call needs a human's approval
    DECIDED = "turn.decided"  # the human approved, denied or was too late
    ANSWERED = "turn.answered"
    FAILED = "turn.failed"
    INTERRUPTED = "turn.interrupted"


TRANSITIONS: Mapping[Phase, Mapping[TurnEvent, Phase]] = {
    Phase.THINKING: {
        TurnEvent.RESUMED: Phase.THINKING,
        TurnEvent.RECALLED: Phase.THINKING,
        TurnEvent.JOINED: Phase.THINKING,
        TurnEvent.CALLED: Phase.ACTING,
        TurnEvent.ANSWERED: Phase.COMMITTED,
        TurnEvent.FAILED: Phase.FAILED,
        TurnEvent.INTERRUPTED: Phase.INTERRUPTED,
    },
    Phase.ACTING: {
        TurnEvent.RESUMED: Phase.ACTING,
        TurnEvent.STEPPED: Phase.ACTING,
        TurnEvent.RETURNED: Phase.THINKING,
        TurnEvent.ASKED: Phase.AWAITING,
        TurnEvent.FAILED: Phase.FAILED,
        TurnEvent.INTERRUPTED: Phase.INTERRUPTED,
    },
    Phase.AWAITING: {
        TurnEvent.RESUMED: Phase.AWAITING,
        TurnEvent.DECIDED: Phase.ACTING,
        TurnEvent.RETURNED: Phase.THINKING,  # the last call was denied: each has its result now
        TurnEvent.FAILED: Phase.FAILED,
        TurnEvent.INTERRUPTED: Phase.INTERRUPTED,
    },
    Phase.COMMITTED: {},
    Phase.FAILED: {},
    Phase.INTERRUPTED: {},
}
CLOSED = frozenset({Phase.COMMITTED, Phase.FAILED, Phase.INTERRUPTED})
MESSAGE_STATES: Mapping[Phase, MessageState] = {
    Phase.COMMITTED: MessageState.ANSWERED,
    Phase.FAILED: MessageState.FAILED,
    Phase.INTERRUPTED: MessageState.INTERRUPTED,
}


def advance(phase: Phase, event: TurnEvent) -> Phase:
    """The phase after an event. An event the phase cannot see is our bug, never an outcome."""
    after = TRANSITIONS[phase].get(event)
    if after is None:
        raise InvariantBroken(f"{event.value} while {phase.value}")
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An open turn, as its worker holds it."""

    session: SessionId
    n: int
    phase: Phase
    attempt: int
    principal: Principal
    messages: tuple[MessageId, ...]  # the inbound it answers
    first_seq: int
    last_seq: int  # the newest entry of the session; the next write expects it
    epoch: int = 1
    stopping: bool = False  # `/stop` was said
    opened_at: Instant = Instant(0)
    hop: int = 0  # how many agents its messages have come through
    approval: Approval | None = None  # what it waits for, while it does
    where: CallerDirectory = NOWHERE  # where its messages were written
    chain: Chain = NOBODY  # the agents through which its messages came
    shared: bool = False  # several people have spoken in its chat

    @property
    def waits(self) -> bool:
        """Whether there is nothing to do but to wait for a human."""
        return self.approval is not None and self.approval.is_open and not self.stopping


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpening:
    """What a worker asks for when it opens a turn."""

    session: SessionId  # the live session, or the id of a new one when the mailbox has none
    messages: tuple[MessageId, ...]
    entries: tuple[AnyBody, ...]
    principal: Principal
    human: bool = True
    retry: bool = False  # take back the last turn first (D41), if the sender of the first message may
    repeats: tuple[SessionId, int] | None = None  # the turn that a retry takes back, whose chain it has
    operators: frozenset[str] = frozenset()  # named ones of the agent, for a retry
    where: CallerDirectory = NOWHERE
    chain: Chain = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Entries journaled while a turn is open, and the event that they are."""

    event: TurnEvent
    entries: tuple[AnyBody, ...]
    messages: tuple[MessageId, ...] = ()  # inbound that joins the turn
    ask: ApprovalAsk | None = None  # what a human is asked
    starts: ToolCall | None = None  # the call that is about to run; compared with what a human approved
    outgoing: tuple["OutgoingMessage", ...] = ()  # messages to other agents; the step journals that they were sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    tokens_in: int = 0
    tokens_out: int = 0
    estimated_in: int = 0  # what we had estimated for the same request, uncorrected


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReply:
    """Something to be said to the sender. Whether somebody must send it depends on the channel (outbox/post.py)."""

    id: ReplyId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message from this agent to another one. It leaves as a reply row, through the postman, and nobody waits."""

    address: str  # the place of the other agent that it goes to
    text: str
    id: ReplyId = ReplyId("")  # given by the worker


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCommit:
    """All that the end of a turn makes durable, in one transaction."""

    event: TurnEvent
    entries: tuple[AnyBody, ...]
    replies: tuple[NewReply, ...]
    usage: Usage = field(default_factory=Usage)
    reason: str | None = None
    policies: tuple[DeliveryPolicy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """A whole turn written by somebody without a mailbox (D8)."""

    session: SessionId
    agent: str
    key: str
    entries: tuple[AnyBody, ...]
    principal: Principal
    place: str
    purpose: str = "conversation"
    parent: SessionId | None = None
    expected_seq: int | None = None
    usage: Usage = field(default_factory=Usage)
    policies: tuple[DeliveryPolicy, ...] = ()
    where: CallerDirectory = NOWHERE


@dataclass(frozen=True, slots=True)
class Recorded:
    session: SessionId
    turn: int
    last_seq: int
    repeated: bool  # the same turn_key was recorded before; nothing happened now


# --- where a resumed turn stands ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenCall:
    call: ToolCall
    started: bool


def open_calls(entries: Sequence[Entry]) -> tuple[OpenCall, ...]:
    """The tool calls of the newest assistant step that have no result yet."""
    for position in range(len(entries) - 1, -1, -1):
        body = entries[position].body
        if isinstance(body, AssistantSaid):
            later = [entry.body for entry in entries[position + 1 :]]
            started = {step.call for step in later if isinstance(step, ToolStarted)}
            returned = {step.call for step in later if isinstance(step, ToolReturned)}
            return tuple(OpenCall(call, call.id in started) for call in body.calls if call.id not in returned)
    return ()


UNKNOWN_OUTCOME = (
    "The outcome of this call is unknown: it began and was cut off before its result was recorded. It may or may not "
    "have taken effect. Check before repeating it."
)
NOT_RUN = "This call was not run: the turn ended before it began."


def close_call(open_call: OpenCall) -> ToolReturned:
    """The honest result for a call that will never have a real one."""
    text = UNKNOWN_OUTCOME if open_call.started else NOT_RUN
    outcome = "unknown" if open_call.started else "not_run"
    return ToolReturned(call=open_call.call.id, name=open_call.call.name, text=text, outcome=outcome)


@dataclass(frozen=True, slots=True)
class Committed:
    """What is left in the mailbox after a commit."""

    waiting: int
