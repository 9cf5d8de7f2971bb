"""What happens in a store, as a stream of events for people who watch: messages, turns, replies and deliveries.

A reader keeps a cursor of what it has told, and asks again. Between two looks, several changes of one reply are one
event: the newest. Nothing decides by these events.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import Instant
from holdfast.monitor.durations import duration
from holdfast.monitor.message_list import ListedMessage
from holdfast.monitor.timeline_step import Mark, joined
from holdfast.outbox.post import PULLED

OPEN_SENDS = frozenset({"pending", "attempting", "scheduled", "sending"})  # an uncertain delivery is open, a reply not
ENDED_KEPT = 1_000


class TurnKey(NamedTuple):
    session: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TailEvent:
    at: Instant
    kind: str  # message, turn, recall, model, tool, compression, resumption, reply, delivery
    agent: str
    what: str
    proof: str = ""  # ids, numbers and reasons
    text: str = ""  # the beginning of the words of a message
    mark: Mark = Mark.DONE
    subject: str = ""  # the id of the message, reply or delivery, or SESSION/N
    turn: str = ""  # SESSION/N


class SentItem(NamedTuple):
    """A reply or a delivery. `name` is its channel or provider."""

    n: int
    id: str
    agent: str
    name: str
    state: str
    attempt: int
    receipt: str | None
    reason: str | None
    at: Instant
    sent_at: Instant | None
    settled_at: Instant | None
    session: str | None
    turn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailTurn:
    session: str
    n: int
    agent: str
    phase: str
    opened_at: Instant
    closed_at: Instant | None
    reason: str | None


class SentState(NamedTuple):
    state: str
    attempt: int

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_SENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCursor:
    """Rows up to `after` were told; of later rows and of open ones, the state that was told."""

    after: int = 0
    known: Mapping[int, SentState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCursor:
    """What was told. Rows that become visible out of order are looked for a little behind the newest ones."""

    messages_after: str
    messages: frozenset[str] = frozenset()
    activities_after: int = 0
    activities: frozenset[int] = frozenset()
    turns: Mapping[TurnKey, str] = field(default_factory=dict)  # open ones, with their phases
    ended: Sequence[TurnKey] = ()
    replies: SendCursor = field(default_factory=SendCursor)
    deliveries: SendCursor = field(default_factory=SendCursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPage:
    """Events in the order of their times, and where the next page goes on."""

    events: Sequence[TailEvent]
    cursor: TailCursor


# --- messages and turns ------------------------------------------------------------------------------


def message_event(message: ListedMessage) -> TailEvent:
    state = MessageState(message.state)
    quiet = {MessageState.WAITING, MessageState.IN_TURN, MessageState.ANSWERED, MessageState.FAILED}
    what = "accepted" if state in quiet or state is MessageState.INTERRUPTED else state.value
    return TailEvent(
        at=message.accepted_at,
        kind="message",
        agent=message.agent,
        what=f"{message.sender} in {message.chat}: {what}",
        proof=joined(message.message, message.reason if state in {MessageState.REFUSED, MessageState.HELD} else None),
        text=message.text,
        mark=Mark.FAILED if state is MessageState.REFUSED else Mark.DONE,
        subject=message.message,
    )


def turn_began(key: TurnKey, agent: str, at: Instant) -> TailEvent:
    turn = turn_id(key)
    return TailEvent(at=at, kind="turn", agent=agent, what="turn began", proof=turn, subject=turn, turn=turn)


def turn_waits(key: TurnKey, agent: str, at: Instant) -> TailEvent:
    turn = turn_id(key)
    what = "turn waits for a person"
    return TailEvent(at=at, kind="turn", agent=agent, what=what, proof=turn, mark=Mark.WAITING, subject=turn, turn=turn)


def turn_ended(found: TailTurn) -> TailEvent:
    turn, closed_at = turn_id(TurnKey(found.session, found.n)), found.closed_at or found.opened_at
    word = {"committed": "answered"}.get(found.phase, found.phase)
    return TailEvent(
        at=closed_at,
        kind="turn",
        agent=found.agent,
        what=f"turn {word} after {duration(closed_at - found.opened_at)}",
        proof=joined(turn, found.reason),
        mark=Mark.DONE if found.phase == "committed" else Mark.FAILED,
        subject=turn,
        turn=turn,
    )


def turn_id(key: TurnKey) -> str:
    return f"{key.session}/{key.n}"


# --- replies and deliveries --------------------------------------------------------------------------

REPLY_WORDS = {"pending": "waits to be sent", "attempting": "is being sent", "failed": "was not taken"}
DELIVERY_WORDS = {"scheduled": "waits to be sent", "sending": "is being sent", "dropped": "not sent"}
MARKS = {
    "pending": Mark.WAITING,
    "scheduled": Mark.WAITING,
    "attempting": Mark.RUNNING,
    "sending": Mark.RUNNING,
    "uncertain": Mark.UNCERTAIN,
    "failed": Mark.FAILED,
    "parked": Mark.FAILED,
}


def send_events(kind: str, cursor: SendCursor, found: Iterable[SentItem], now: Instant) -> Iterator[TailEvent]:
    """An event for each reply or delivery whose state or attempt is not the one that was told."""
    for sent in found:
        if cursor.known.get(sent.n) != SentState(sent.state, sent.attempt):
            yield _send_event(kind, sent, now)


def _send_event(kind: str, sent: SentItem, now: Instant) -> TailEvent:
    if kind == "delivery":
        what = f"{sent.name}: {DELIVERY_WORDS.get(sent.state, sent.state)}"
    elif sent.name in PULLED:
        what = "reply can be fetched"
    else:
        what = f"reply {REPLY_WORDS.get(sent.state, f'is {sent.state}')} over {sent.name}"
    tried = f"attempt {sent.attempt}" if sent.attempt > 1 else None
    receipt = f"receipt {sent.receipt}" if sent.receipt and sent.receipt != sent.id else None
    turn = f"{sent.session}/{sent.turn}" if sent.session is not None and sent.turn is not None else ""
    return TailEvent(
        at=_time_of(sent, now),
        kind=kind,
        agent=sent.agent,
        what=what,
        proof=joined(sent.id, tried, receipt, sent.reason),
        mark=MARKS.get(sent.state, Mark.DONE),
        subject=sent.id,
        turn=turn,
    )


def _time_of(sent: SentItem, now: Instant) -> Instant:
    """When it came into its state; `now` if its row does not say."""
    if not SentState(sent.state, sent.attempt).is_open:
        return sent.settled_at or now
    if sent.state in {"attempting", "sending"}:
        return sent.sent_at or now
    return now if sent.attempt else sent.at


def next_sends(cursor: SendCursor, found: Iterable[SentItem], overlap: int) -> SendCursor:
    """The cursor after these rows: the newest ones stay known, since rows may become visible out of order."""
    known = {**cursor.known, **{sent.n: SentState(sent.state, sent.attempt) for sent in found}}
    after = max(cursor.after, max(known, default=0) - overlap)
    return SendCursor(after=after, known={n: state for n, state in known.items() if n > after or state.is_open})


def next_ended(ended: Sequence[TurnKey], more: Iterable[TurnKey]) -> Sequence[TurnKey]:
    return list(dict.fromkeys((*ended, *more)))[-ENDED_KEPT:]
