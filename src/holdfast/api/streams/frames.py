"""Frames about a message while it is answered, sent over WebSocket and as server-sent events.

Rule 1: a delta is a preview. `restarted` voids the deltas before it, and `reply` has the whole durable text, so a
        client that missed deltas or joined late has lost nothing.
Rule 2: every frame reports durable state, except deltas.
Rule 3: a message that waits for a human, in its turn or behind another one, reports each approval once, so a client
        knows why it waits.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import closing

from msgspec import Struct, structs

from holdfast.api.auth.viewer import Viewer
from holdfast.api.shapes.error_report import ErrorDetail
from holdfast.api.shapes.shapes import Awaited, awaited_view
from holdfast.api.shapes.view import view_of
from holdfast.inbox.mailbox import MessageTrace
from holdfast.inbox.message import UNFINISHED
from holdfast.kernel.ids import MessageId
from holdfast.kernel.notifier import Event, Feed

LOOK_EVERY_MS = 1_000  # another process may answer
VOIDING = frozenset({"turn.restarted", "turn.called"})  # text before a tool call is not part of the reply


class Frame(Struct, frozen=True, kw_only=True, tag_field="type"):
    """A frame to the client; `type` is its kind."""


class DeltaFrame(Frame, frozen=True, kw_only=True, tag="delta"):
    messages: list[str]
    text: str


class Restarted(Frame, frozen=True, kw_only=True, tag="restarted"):
    messages: list[str]


class State(Frame, frozen=True, kw_only=True, tag="state"):
    message: str
    state: str


class HumanAsked(Frame, Awaited, frozen=True, kw_only=True, tag="asked"):
    """The message waits for a human."""

    message: str


class Replied(Frame, frozen=True, kw_only=True, tag="reply"):
    """The end of a message: its final state, and the reply if there is one."""

    message: str
    agent: str
    chat: str
    id: str
    state: str
    text: str
    reason: str | None
    hop: int  # a program that passes the reply on to another agent sends it along


class Failed(Frame, frozen=True, kw_only=True, tag="error"):
    error: ErrorDetail
    id: str | None = None  # of the message that was not accepted


reply_of: Callable[[MessageTrace], Replied] = view_of(
    Replied,
    id="event_id",
    text=lambda trace: trace.reply.text if trace.reply else "",
    hop=lambda trace: trace.hop + 1,
)


def question_of(trace: MessageTrace, told: str) -> HumanAsked | None:
    """The approval that the message waits for, unless its id is `told`, that of the last one sent."""
    asked = trace.awaiting
    if asked is None or asked.id == told:
        return None
    return HumanAsked(message=trace.message, **structs.asdict(awaited_view(asked)))


def live_frames(event: Event) -> Iterable[Frame] | None:
    """The frames that follow from an event alone; None if the store must be read."""
    if event.name == "turn.delta":
        return [DeltaFrame(messages=list(event.messages), text=event.text)]
    if event.name in VOIDING:
        return [Restarted(messages=list(event.messages))]
    if event.name == "message.accepted":
        return [State(message=message, state="waiting") for message in event.messages]
    if event.name in {"turn.opened", "turn.joined"}:
        return [State(message=message, state="in_turn") for message in event.messages]
    return None


async def follow_message(viewer: Viewer, message: MessageId, feed: Feed) -> AsyncGenerator[Frame]:
    """The frames of one message until it ends; the last one is its `Replied`. Closes the feed."""
    with closing(feed):
        trace, told = await viewer.trace(message), ""
        yield State(message=message, state=trace.state.value)
        while trace.state in UNFINISHED:
            if (asked := question_of(trace, told)) is not None:
                told = asked.approval
                yield asked
            event = await feed.next_within(LOOK_EVERY_MS)
            frames = live_frames(event) if event is not None else None
            if frames is None:
                trace = await viewer.trace(message)
            for frame in frames or ():
                yield frame
        yield reply_of(trace)
