"""What is told about a message while it is answered, over WebSocket and as server-sent events.

Rule 1: a delta is a preview. `restarted` voids the deltas before it, and `reply` has the whole durable text: whoever
        missed deltas, or joined late, has lost nothing.
Rule 2: nothing is told that is not durable, except deltas.
Rule 3: a message that waits for a human, in its turn or behind one, says so once for each question: nobody waits for a
        day without knowing why.
"""

from collections.abc import AsyncGenerator, Iterable

from msgspec import Struct

from holdfast.api.shapes.shapes import ErrorDetail
from holdfast.inbox.message import UNFINISHED
from holdfast.inbox.message_trace import MessageTrace
from holdfast.kernel.ids import MessageId
from holdfast.kernel.notifier import Event, Feed
from holdfast.runtime.runtime import Runtime

LOOK_EVERY_MS = 1_000  # another process may be the one that answers
VOIDING = frozenset({"turn.restarted", "turn.called"})  # what was said before a tool call is no part of the reply


class Frame(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Something that a client is told; `type` says what."""


class DeltaFrame(Frame, frozen=True, kw_only=True, tag="delta"):
    messages: list[str]
    text: str


class Restarted(Frame, frozen=True, kw_only=True, tag="restarted"):
    messages: list[str]


class State(Frame, frozen=True, kw_only=True, tag="state"):
    message: str
    state: str


class HumanAsked(Frame, frozen=True, kw_only=True, tag="asked"):
    """The message waits for a human: `/approve <approval>` or `/deny <approval>`, said in its chat, lets it go on.

    Where `cut` is true, `text` leaves out a part of the arguments, and `/approve` takes the digest that
    `GET /v1/approvals/{approval}` shows with all of them.
    """

    message: str
    approval: str
    tool: str
    text: str
    due_at: int
    cut: bool = False


class Replied(Frame, frozen=True, kw_only=True, tag="reply"):
    """The end of a message: its final state, and the reply if there is one."""

    message: str
    agent: str
    chat: str
    id: str
    state: str
    text: str
    reason: str | None
    hop: int  # for whoever passes the reply on to another agent, to be said with it


class Failed(Frame, frozen=True, kw_only=True, tag="error"):
    error: ErrorDetail
    id: str | None = None  # of the message that was not accepted


def reply_of(trace: MessageTrace) -> Replied:
    return Replied(
        message=trace.message,
        agent=trace.agent,
        chat=trace.chat,
        id=trace.event_id,
        state=trace.state.value,
        text=trace.reply.text if trace.reply else "",
        reason=trace.reason,
        hop=trace.hop + 1,
    )


def question_of(trace: MessageTrace, told: str) -> HumanAsked | None:
    """What the message waits for, unless that has been told."""
    asked = trace.awaiting
    if asked is None or asked.id == told:
        return None
    return HumanAsked(
        message=trace.message,
        approval=asked.id,
        tool=asked.tool,
        text=asked.text,
        due_at=asked.due_at,
        cut=asked.cut,
    )


def live_frames(event: Event) -> Iterable[Frame] | None:
    """What an event says by itself; None when the store must be asked."""
    if event.name == "turn.delta":
        return [DeltaFrame(messages=list(event.messages), text=event.text)]
    if event.name in VOIDING:
        return [Restarted(messages=list(event.messages))]
    if event.name == "message.accepted":
        return [State(message=message, state="waiting") for message in event.messages]
    if event.name in {"turn.opened", "turn.joined"}:
        return [State(message=message, state="in_turn") for message in event.messages]
    return None


async def follow_message(service: Runtime, message: MessageId, feed: Feed) -> AsyncGenerator[Frame]:
    """Everything about one message until it ends; the last frame is its `Replied`. Closes the feed."""
    try:
        trace, told = await service.trace(message), ""
        yield State(message=message, state=trace.state.value)
        while trace.state in UNFINISHED:
            if (asked := question_of(trace, told)) is not None:
                told = asked.approval
                yield asked
            event = await feed.next_within(LOOK_EVERY_MS)
            frames = live_frames(event) if event is not None else None
            if frames is None:
                trace = await service.trace(message)
            for frame in frames or ():
                yield frame
        yield reply_of(trace)
    finally:
        feed.close()
