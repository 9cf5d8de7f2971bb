"""The outside surface as JSON shapes, kept stable because people script against it.

The HTTP channel answers with these, and the command line prints the same with `--json`. Times are UTC milliseconds.
A field may be added; none is renamed or removed.
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
    """Something that we answer."""


class NewMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message for a chat. `id` is the sender's own, unique within (agent, chat): repeating it is safe.

    Without `agent` it is for main where there is one, else for the first agent that is configured.
    """

    chat: Part
    id: Part
    text: str
    agent: Name | None = None
    sender: Part | None = None  # the chat where nobody is named


class AcceptedMessage(Shape, frozen=True, kw_only=True):
    """The message is durable. `message` is our id of it."""

    status: Literal["accepted"] = "accepted"
    message: str
    queued_behind: int


class DuplicateMessage(Shape, frozen=True, kw_only=True):
    """The same message was accepted before; nothing happened now."""

    status: Literal["duplicate"] = "duplicate"
    message: str
    state: str


class Reply(Shape, frozen=True, kw_only=True):
    """What was answered, and what became of it on its platform. What is fetched here is delivered at once."""

    text: str
    state: str
    id: str
    attempt: int
    receipt: str | None
    reason: str | None
    possible_duplicate: bool  # the platform may show some piece of it twice
    draft: str | None  # of the draft that was shown before: replaced, gone, unknown (it may still stand there)


class Delivery(Shape, frozen=True, kw_only=True):
    """One unit on its way to one provider."""

    id: str
    provider: str
    place: str
    op: str
    state: str
    attempt: int
    session: str
    from_turn: int
    through_turn: int
    late: bool  # it was parked once and has lost its place in the order
    scheduled_at: int
    due_at: int | None  # when it is tried next, while it is on its way
    receipt: str | None
    reason: str | None
    means: str | None = None  # what `delivered` says at this provider, and what it does not


class AttachmentOf(Shape, frozen=True, kw_only=True):
    """Something that came with a message. `hash` is the SHA-256 of its bytes; name and type are the sender's words."""

    hash: str
    name: str
    media_type: str
    bytes: int


class MessageStatus(Shape, frozen=True, kw_only=True):
    """What happened to one message."""

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
    awaiting: Awaited | None = None  # set while its turn, or the one that it stands behind, waits for a human


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
    address: str | None = None  # where it is held; none for one that a program wrote
    chat: str | None = None


class Sessions(Shape, frozen=True, kw_only=True):
    """Newest first."""

    sessions: list[SessionView]


class JournalEntry(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a journal. `message_id` is the sender's id, on what a sender said."""

    seq: int
    turn: int
    kind: str
    text: str
    message_id: str | None
    undone: bool
    at: int
    calls: list[ToolCall] = field(default_factory=list)  # the tools that the model asked for
    tool: str | None = None  # the tool that an entry of kind `tool` or `tool_started` is about
    sender: str | None = None  # who said it, on what a sender said


class Entries(Shape, frozen=True, kw_only=True):
    entries: list[JournalEntry]


class PromptMessage(Shape, frozen=True, kw_only=True):
    role: str
    content: str


class SessionContext(Shape, frozen=True, kw_only=True):
    """What the model would be sent now."""

    messages: list[PromptMessage]
    covers_through: int
    tokens: int


class Snapshot(Shape, frozen=True, kw_only=True):
    """What a compression covered: the summary, and the entries it stands for as they were then."""

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
    """`ok` is true only when a real write succeeded just now and no damaged page of the store was seen."""

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


# --- from our values -------------------------------------------------------------------------------


def accepted_view(outcome: AcceptOutcome) -> AcceptedMessage | DuplicateMessage:
    """Raises what a refusal is called."""
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
