"""The JSON shapes of the API, kept stable because scripts depend on them.

The HTTP API answers with these shapes, and the command line prints them with `--json`. Times are UTC milliseconds.
Fields may be added; none is renamed or removed.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from holdfast.api.shapes.view import Shape, each, list_of, optional, or_none, view_of
from holdfast.inbox.address import parse
from holdfast.inbox.mailbox import MessageTrace
from holdfast.inbox.message import Accepted, AcceptOutcome, Duplicate, refusal
from holdfast.memory.delivery import OPEN, DeliveryView
from holdfast.runtime.views import Health, Prompt
from holdfast.sessions.compression import Operation, Summary, snapshot_name
from holdfast.sessions.session import ChatLine, Session
from holdfast.turns.approval import OpenQuestion
from holdfast.turns.journal import AssistantSaid, EntryView, Observed, ToolCall, ToolReturned, ToolStarted, UserSaid

ON_ITS_WAY = frozenset(state.value for state in OPEN)
# Ids and names. The schemas describe the checks of inbox/address.py; msgspec does not enforce them, so errors have
# Holdfast's codes.
Part = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 512, "pattern": "^[^\\u0000-\\u001f\\u007f]*$"})
]
Name = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"})]


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
    decided_by: str | None = None  # the person who gave it up, or who said that it arrived
    means: str | None = None  # what `delivered` does and does not guarantee at this provider


class AttachmentOf(Shape, frozen=True, kw_only=True):
    """An attachment of a message. `hash` is the SHA-256 of its bytes; the sender chose `name` and `media_type`."""

    hash: str
    name: str
    media_type: str
    bytes: int


class Awaited(Shape, frozen=True, kw_only=True):
    """The approval that a message waits for; `/approve <approval>` or `/deny <approval>` in its chat decides it.

    If `cut` is true, `text` omits a part of the arguments. `GET /v1/approvals/{approval}` shows all of them and the
    digest, and approving takes `/approve <approval> <digest>`.
    """

    approval: str
    tool: str
    text: str
    due_at: int  # when it counts as denied
    cut: bool = False


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


class ConversationLine(Shape, frozen=True, kw_only=True):
    """A message of a sender or a reply of the agent. `message_id` and `sender` are null on a reply."""

    id: str
    message: str  # the message, or the one that the reply answers
    message_id: str | None
    sender: str | None
    text: str
    state: str
    session: str | None
    turn: int | None
    at: int
    question: bool  # a reply that asks a human about a tool call, decided or not; its text is no Markdown
    approval: str | None  # an open approval: decide it with /approve or /deny
    undone: bool


class Conversation(Shape, frozen=True, kw_only=True):
    """Oldest first. `before` is the value of `before` for the page of earlier messages; null if there is none."""

    lines: list[ConversationLine]
    before: int | None


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


delivery_view: Callable[[DeliveryView], Delivery] = view_of(
    Delivery,
    session="stream",
    scheduled_at="at",
    due_at=lambda one: one.due_at if one.state in ON_ITS_WAY else None,
)
awaited_view: Callable[[OpenQuestion], Awaited] = view_of(Awaited, approval="id")
message_view: Callable[[MessageTrace], MessageStatus] = view_of(
    MessageStatus,
    id="event_id",
    sender="principal",
    reply=optional("reply", view_of(Reply)),
    deliveries=each("deliveries", delivery_view),
    attachments=each("enclosures", view_of(AttachmentOf, bytes="size")),
    awaiting=optional("awaiting", awaited_view),
)
line_view: Callable[[ChatLine], ConversationLine] = view_of(
    ConversationLine, message_id=or_none("event_id"), sender="principal", question="is_question"
)
session_view: Callable[[Session], SessionView] = view_of(
    SessionView, chat=lambda one: parse(one.address).chat if one.address else None
)
sessions_view = list_of(Sessions, session_view)
operation_view: Callable[[Operation], OperationView] = view_of(OperationView)
operations_view = list_of(Operations, operation_view)
health_view: Callable[[Health], HealthReport] = view_of(HealthReport, message="why")
context_view: Callable[[Prompt], SessionContext] = view_of(
    SessionContext, messages=each("messages", view_of(PromptMessage))
)


def conversation_view(found: Sequence[ChatLine], limit: int) -> Conversation:
    positions = {line.seq for line in found}
    before = min(positions) if positions and len(positions) >= limit else None
    return Conversation(lines=[line_view(line) for line in found], before=before)


def entry_view(view: EntryView) -> JournalEntry:
    entry, body = view.entry, view.entry.body
    said = body if isinstance(body, UserSaid | Observed) else None
    return JournalEntry(
        seq=entry.seq,
        turn=entry.turn,
        kind=entry.kind,
        text=entry.text,
        message_id=(said.event_id or None) if said else None,
        undone=view.undone,
        at=entry.at,
        calls=list(body.calls) if isinstance(body, AssistantSaid) else [],
        tool=body.name if isinstance(body, ToolStarted | ToolReturned) else None,
        sender=said.principal if said else None,
    )


entries_view = list_of(Entries, entry_view)


def snapshot_view(summary: Summary, covered: Sequence[EntryView]) -> Snapshot:
    name, entries = snapshot_name(summary.session, summary.n), [entry_view(one) for one in covered]
    return view_of(Snapshot, snapshot=lambda _: name, entries=lambda _: entries)(summary)
