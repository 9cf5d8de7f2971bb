"""One turn: from the messages that open it to a final outcome.

Rule 1: TRANSITIONS holds every change of phase; the diagram in the docs and the exhaustive test are generated from it.
Rule 2: this module knows no time, store or model; they arrive as events.
Rule 3: a crash does not end a turn: the turn stays in its phase, is resumed with attempt + 1 and continues from its
        last journaled step. A call that was started and has no result has an unknown outcome.
Rule 4: a turn that waits for a human holds no claim (D9): no worker serves it, and its mailbox sleeps meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import Instant, MessageId, Principal, ReplyId, SessionId
from holdfast.memory.delivery import NOWHERE, CallerDirectory, DeliveryPolicy
from holdfast.turns.activity import Activity
from holdfast.turns.approval import Approval, ApprovalAsk
from holdfast.turns.context import Context
from holdfast.turns.journal import AnyBody, AssistantSaid, Entry, ToolCall, ToolReturned, ToolStarted


class Phase(Enum):
    THINKING = "thinking"  # the model is running
    ACTING = "acting"  # tools are running
    AWAITING = "awaiting"  # a tool call waits for a human's decision
    COMMITTED = "committed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class TurnEvent(Enum):
    RESUMED = "turn.resumed"
    RECALLED = "turn.recalled"  # memory was queried
    JOINED = "turn.joined"  # a steering message joined
    CALLED = "turn.called"  # the model called tools
    STEPPED = "turn.stepped"  # a tool started or returned, and other calls are open
    RETURNED = "turn.returned"  # every tool call has a result
    ASKED = "turn.asked"  # a call needs a human's approval
    DECIDED = "turn.decided"  # a human approved or denied the call, or the deadline passed
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
        TurnEvent.RETURNED: Phase.THINKING,  # the last call was denied, so every call has a result
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
    """The phase after an event. An event that the phase does not allow is a bug, never an outcome."""
    after = TRANSITIONS[phase].get(event)
    if after is None:
        raise InvariantBroken(f"{event.value} while {phase.value}")
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An open turn, as its worker sees it."""

    session: SessionId
    n: int
    phase: Phase
    attempt: int
    principal: Principal
    messages: tuple[MessageId, ...]  # the inbound messages that it answers
    first_seq: int
    last_seq: int  # the newest entry of the session; the next write expects it
    epoch: int = 1
    stopping: bool = False  # `/stop` was received
    opened_at: Instant = Instant(0)
    hop: int = 0  # the number of agents that its messages have passed
    approval: Approval | None = None  # the approval that it waits for
    where: CallerDirectory = NOWHERE  # the working directory of the sender
    chain: Chain = NOBODY  # the agents that its messages have passed
    shared: bool = False  # several people have spoken in its chat

    @property
    def waits(self) -> bool:
        """Whether the turn can only wait for a human."""
        return self.approval is not None and self.approval.is_open and not self.stopping


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpening:
    """A worker's request to open a turn."""

    session: SessionId  # the live session, or the id of a new one if the mailbox has none
    messages: tuple[MessageId, ...]
    entries: tuple[AnyBody, ...]
    principal: Principal
    human: bool = True
    retry: bool = False  # undo the last turn first (D41), if the sender of the first message may
    retried_by: Principal | None = None  # the sender of a retry, who reads the answer
    repeats: tuple[SessionId, int] | None = None  # the turn that a retry undoes; the retry inherits its chain
    operators: frozenset[str] = frozenset()  # the agent's named operators, for a retry
    where: CallerDirectory = NOWHERE
    chain: Chain = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Entries journaled while a turn is open, and the event that they represent."""

    event: TurnEvent
    entries: tuple[AnyBody, ...]
    messages: tuple[MessageId, ...] = ()  # inbound messages that join the turn
    ask: ApprovalAsk | None = None  # a question to a human
    starts: ToolCall | None = None  # the call that is about to run; compared with the approved call
    outgoing: tuple["OutgoingMessage", ...] = ()  # messages to other agents; the step journals that they were sent
    activities: tuple[Activity, ...] = ()  # done since the previous write of this claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    tokens_in: int = 0
    tokens_out: int = 0
    estimated_in: int = 0  # Holdfast's uncorrected estimate for the same request


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReply:
    """A reply to the sender. The channel decides whether the reply sender delivers it (outbox/post.py)."""

    id: ReplyId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message to another agent, stored as a reply row. The reply sender delivers it; the turn does not wait."""

    address: str  # the address of the other agent
    text: str
    id: ReplyId = ReplyId("")  # assigned by the worker


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCommit:
    """The writes that end a turn, in one transaction."""

    event: TurnEvent
    entries: tuple[AnyBody, ...]
    replies: tuple[NewReply, ...]
    usage: Usage = field(default_factory=Usage)
    reason: str | None = None
    policies: tuple[DeliveryPolicy, ...] = ()
    activities: tuple[Activity, ...] = ()  # done since the previous write of this claim


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """A whole turn from a writer without a mailbox (D8)."""

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
    repeated: bool  # the same turn_key was recorded before; this call changed nothing
    context: Context | None = field(default=None, repr=False)  # after the turn, if the caller asked for it


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
    """The state of the mailbox after a commit."""

    waiting: int
    released: bool = False  # the commit ended the claim
