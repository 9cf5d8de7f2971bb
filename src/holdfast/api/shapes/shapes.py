"""The JSON shapes of the API, kept stable because scripts depend on them.

The HTTP API answers with these shapes, and the command line prints them with `--json`. Times are UTC milliseconds.
Fields may be added; none is renamed or removed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from holdfast.api.shapes.awaited import Awaited, awaited_view
from holdfast.api.shapes.json_types import Name, Part
from holdfast.inbox.address import parse
from holdfast.inbox.message import Accepted, AcceptOutcome, Duplicate, refusal
from holdfast.inbox.message_trace import MessageTrace, ReplyView
from holdfast.kernel.errors import HoldfastError
from holdfast.memory.delivery import OPEN, DeliveryView
from holdfast.runtime.views import Health, Prompt
from holdfast.sessions.compression import Operation, Summary, snapshot_name
from holdfast.sessions.session import Session
from holdfast.turns.journal import AssistantSaid, EntryView, Observed, ToolCall, ToolReturned, ToolStarted, UserSaid

ON_ITS_WAY = frozenset(state.value for state in OPEN)


class Shape(Struct, frozen=True, kw_only=True):
    """Base of the answers."""


class NewMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message for a chat. `id` is the sender's own, unique within (agent, chat): repeating it is safe.

    Without `agent`, the message is for `main` if it is configured, else for the first configured agent.
    """

    chat: Part
    id: Part
    text: str
    agent: Name | None = None
    sender: Part | None = None  # null: the sender is the chat


class AcceptedMessage(Shape, frozen=True, kw_only=True):
    """The message is durable. `message` is its id in Holdfast."""

    status: Literal["accepted"] = "accepted"
    message: str
    queued_behind: int


class DuplicateMessage(Shape, frozen=True, kw_only=True):
    """The same message was accepted before; this request had no effect."""

    status: Literal["duplicate"] = "duplicate"
    message: str
    state: str


class Reply(Shape, frozen=True, kw_only=True):
    """The reply to a message, and its state on its platform. A reply that clients fetch is delivered at once."""

    text: str
    state: str
    id: str
    attempt: int
    receipt: str | None
    reason: str | None
    possible_duplicate: bool  # the platform may show a piece of it twice
    draft: str | None  # the draft that was shown before: replaced, gone, unknown (it may still be visible)


class Delivery(Shape, frozen=True, kw_only=True):
    """One delivery to one provider."""

    id: str
    provider: str
    place: str
    op: str
    state: str
    attempt: int
    session: str
    from_turn: int
    through_turn: int
    late: bool  # it was parked before and has lost its place in the order
    scheduled_at: int
    due_at: int | None  # the next attempt, while it is not settled
    receipt: str | None
    reason: str | None
    means: str | None = None  # what `delivered` does and does not guarantee at this provider


class AttachmentOf(Shape, frozen=True, kw_only=True):
    """An attachment of a message. `hash` is the SHA-256 of its bytes; the sender chose `name` and `media_type`."""

    hash: str
    name: str
    media_type: str
    bytes: int


class MessageStatus(Shape, frozen=True, kw_only=True):
    """The state of one message, with its reply and deliveries."""

    message: str
    agent: str
    chat: str
    id: str
    sender: str
    state: str
    reason: str | None
    accepted_at: int
    queued_behind: int
    session: str | None
    turn: int | None
    attempt: int
    reply: Reply | None
    deliveries: list[Delivery]
    attachments: list[AttachmentOf]
    awaiting: Awaited | None = None  # set while its turn, or the turn before it, waits for a human


class SessionView(Shape, frozen=True, kw_only=True):
    id: str
    agent: str
    title: str | None
    state: str
    live: bool
    parent: str | None
    opened_at: int
    active_at: int
    turns: int
    summaries: int
    address: str | None = None  # where the session is held; null if a program wrote it
    chat: str | None = None


class Sessions(Shape, frozen=True, kw_only=True):
    """Newest first."""

    sessions: list[SessionView]


class JournalEntry(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a journal. `message_id` is the sender's id of a message; null on other entries."""

    seq: int
    turn: int
    kind: str
    text: str
    message_id: str | None
    undone: bool
    at: int
    calls: list[ToolCall] = field(default_factory=list)  # the tool calls that the model requested
    tool: str | None = None  # the tool of an entry of kind `tool` or `tool_started`
    sender: str | None = None  # the sender of a message


class Entries(Shape, frozen=True, kw_only=True):
    entries: list[JournalEntry]


class PromptMessage(Shape, frozen=True, kw_only=True):
    role: str
    content: str


class SessionContext(Shape, frozen=True, kw_only=True):
    """The context that the model would get now."""

    messages: list[PromptMessage]
    covers_through: int
    tokens: int


class Snapshot(Shape, frozen=True, kw_only=True):
    """A compression: the summary, and the entries that it covers as they were then."""

    snapshot: str
    session: str
    n: int
    base_n: int
    covers_from: int
    covers_through: int
    model: str
    operation: str
    at: int
    text: str
    entries: list[JournalEntry]


class OperationStarted(Shape, frozen=True, kw_only=True):
    operation: str


class OperationView(Shape, frozen=True, kw_only=True):
    id: str
    kind: str
    session: str
    started_at: int
    ended_at: int | None
    outcome: str | None
    detail: dict[str, Any] | None


class Operations(Shape, frozen=True, kw_only=True):
    operations: list[OperationView]


class HealthReport(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """`ok` is true only if a real write just succeeded and no damaged page of the store was found."""

    ok: bool
    proved_write_ms: int | None
    code: str | None = None
    message: str | None = None
    wal_bytes: int | None = None


class ErrorDetail(Shape, frozen=True, kw_only=True):
    code: str
    message: str
    hint: str


class ErrorReport(Shape, frozen=True, kw_only=True):
    error: ErrorDetail


# --- conversions -------------------------------------------------------------------------------------


def accepted_view(outcome: AcceptOutcome) -> AcceptedMessage | DuplicateMessage:
    """The view of an accepted or duplicate message. Raises the error of a refusal."""
    match outcome:
        case Accepted(message=message, queued_behind=behind):
            return AcceptedMessage(message=message, queued_behind=behind)
        case Duplicate(message=message, state=state):
            return DuplicateMessage(message=message, state=state.value)
        case _:
            raise refusal(outcome)


def message_view(trace: MessageTrace) -> MessageStatus:
    asked = trace.awaiting
    return MessageStatus(
        message=trace.message,
        agent=trace.agent,
        chat=trace.chat,
        id=trace.event_id,
        sender=trace.principal,
        state=trace.state.value,
        reason=trace.reason,
        accepted_at=trace.accepted_at,
        queued_behind=trace.queued_behind,
        session=trace.session,
        turn=trace.turn,
        attempt=trace.attempt,
        reply=_reply_view(trace.reply) if trace.reply else None,
        deliveries=[delivery_view(one) for one in trace.deliveries],
        attachments=[
            AttachmentOf(hash=one.hash, name=one.name, media_type=one.media_type, bytes=one.size)
            for one in trace.enclosures
        ],
        awaiting=awaited_view(asked) if asked else None,
    )


def _reply_view(reply: ReplyView) -> Reply:
    return Reply(
        text=reply.text,
        state=reply.state,
        id=reply.id,
        attempt=reply.attempt,
        receipt=reply.receipt,
        reason=reply.reason,
        possible_duplicate=reply.possible_duplicate,
        draft=reply.draft,
    )


def delivery_view(one: DeliveryView) -> Delivery:
    return Delivery(
        id=one.id,
        provider=one.provider,
        place=one.place,
        op=one.op,
        state=one.state,
        attempt=one.attempt,
        session=one.stream,
        from_turn=one.from_turn,
        through_turn=one.through_turn,
        late=one.late,
        scheduled_at=one.at,
        due_at=one.due_at if one.state in ON_ITS_WAY else None,
        receipt=one.receipt,
        reason=one.reason,
        means=one.means,
    )


def sessions_view(found: Iterable[Session]) -> Sessions:
    return Sessions(sessions=[session_view(one) for one in found])


def session_view(session: Session) -> SessionView:
    return SessionView(
        id=session.id,
        agent=session.agent,
        title=session.title,
        state=session.state.value,
        live=session.live,
        parent=session.parent,
        opened_at=session.opened_at,
        active_at=session.active_at,
        turns=session.turns,
        summaries=session.summaries,
        address=session.address,
        chat=parse(session.address).chat if session.address else None,
    )


def entries_view(found: Iterable[EntryView]) -> Entries:
    return Entries(entries=[entry_view(one) for one in found])


def entry_view(view: EntryView) -> JournalEntry:
    entry, body = view.entry, view.entry.body
    return JournalEntry(
        seq=entry.seq,
        turn=entry.turn,
        kind=entry.kind,
        text=entry.text,
        message_id=(body.event_id or None) if isinstance(body, UserSaid | Observed) else None,
        undone=view.undone,
        at=entry.at,
        calls=list(body.calls) if isinstance(body, AssistantSaid) else [],
        tool=body.name if isinstance(body, ToolStarted | ToolReturned) else None,
        sender=body.principal if isinstance(body, UserSaid | Observed) else None,
    )


def context_view(prompt: Prompt) -> SessionContext:
    return SessionContext(
        messages=[PromptMessage(role=one.role, content=one.content) for one in prompt.messages],
        covers_through=prompt.covers_through,
        tokens=prompt.tokens,
    )


def snapshot_view(summary: Summary, covered: Sequence[EntryView]) -> Snapshot:
    return Snapshot(
        snapshot=snapshot_name(summary.session, summary.n),
        session=summary.session,
        n=summary.n,
        base_n=summary.base_n,
        covers_from=summary.covers_from,
        covers_through=summary.covers_through,
        model=summary.model,
        operation=summary.operation,
        at=summary.at,
        text=summary.text,
        entries=[entry_view(one) for one in covered],
    )


def operation_view(operation: Operation) -> OperationView:
    return OperationView(
        id=operation.id,
        kind=operation.kind,
        session=operation.session,
        started_at=operation.started_at,
        ended_at=operation.ended_at,
        outcome=operation.outcome,
        detail=operation.detail,
    )


def health_view(health: Health) -> HealthReport:
    return HealthReport(
        ok=health.ok,
        proved_write_ms=health.proved_write_ms,
        code=health.code,
        message=health.why,
        wal_bytes=health.wal_bytes,
    )


def error_view(error: HoldfastError) -> ErrorReport:
    return ErrorReport(error=ErrorDetail(code=error.code, message=str(error), hint=error.hint))
