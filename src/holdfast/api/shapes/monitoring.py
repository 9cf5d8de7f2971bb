"""The JSON shapes that an operator watches: connections, costs, extractions from ended epochs, replies, approvals.

The facts that an extraction found are in memory, and the text of a reply is with its message, not here.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import Source, list_of, or_none, page_of, view_of
from holdfast.inbox.channel_status import ChannelStatus, ToolServerStatus
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import PostedReply
from holdfast.sessions.finalisation import Finalisation
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.call_view import full_arguments
from holdfast.turns.spend_sql import SpendTotal, dollars

DECISIONS = {"approve": Decision.APPROVED, "deny": Decision.DENIED}
ON_ITS_WAY = frozenset({ReplyState.PENDING.value, ReplyState.ATTEMPTING.value})


class ChannelStanding(Shape, frozen=True, kw_only=True):
    """A bot account, and whether it is connected to its platform."""

    agent: str
    channel: str
    state: str  # starting, up, down
    since: int
    reason: str  # why it is down; the bot's name on the platform while it is up
    attempts: int  # consecutive failed attempts


class ChannelStandings(Shape, frozen=True, kw_only=True):
    """In the order of the configuration."""

    channels: list[ChannelStanding]


standing_view: Callable[[ChannelStatus], ChannelStanding] = view_of(ChannelStanding)
standings_view = list_of(ChannelStandings, standing_view)


class ToolServer(Shape, frozen=True, kw_only=True):
    """An MCP server, and whether it is connected."""

    agent: str
    server: str
    state: str  # starting, up, down
    since: int
    reason: str  # why it is down
    attempts: int  # consecutive failed attempts to connect
    restarts: int  # connections after the first one
    tools: list[str]  # the names that the model sees now
    confinement: str = ""  # bubblewrap, landlock: the program does not reach Holdfast's data; none; empty: no program
    confinement_note: str = ""  # why the confinement is not stronger
    user: str = ""  # that the program runs as; empty: the user of Holdfast


class ToolServers(Shape, frozen=True, kw_only=True):
    """In the order of the configuration."""

    servers: list[ToolServer]


server_view: Callable[[ToolServerStatus], ToolServer] = view_of(ToolServer)
servers_view = list_of(ToolServers, server_view)


class SpendLine(Shape, frozen=True, kw_only=True):
    """The cost of one agent on one model for one kind of task: reply, summary or extract."""

    agent: str
    model: str
    task: str
    answers: int
    tokens_in: int
    tokens_out: int
    cost_micros: int


class Spending(Shape, frozen=True, kw_only=True):
    """Days are in UTC and include today. Amounts are in millionths of a dollar; `total` is formatted for people."""

    days: int
    lines: list[SpendLine]
    total_micros: int
    total: str


line_view: Callable[[SpendTotal], SpendLine] = view_of(SpendLine)


def spending_view(found: Sequence[SpendTotal], days: int) -> Spending:
    total = sum(one.cost_micros for one in found)
    return Spending(days=days, lines=[line_view(one) for one in found], total_micros=total, total=dollars(total))


class FinalisationOut(Shape, frozen=True, kw_only=True):
    """The end of one epoch of a session, and the progress of the extraction from it."""

    id: str
    session: str
    epoch: int
    agent: str
    cause: str  # new, idle, daily
    state: str  # begun, asked, applied, closed, failed, cancelled
    outcome: str  # running, done, nothing (to extract from), failed, cancelled
    attempts: int
    from_seq: int
    through_seq: int  # below from_seq if the epoch is empty
    model: str | None  # the model that was called
    reason: str | None  # why the newest attempt failed
    started_at: int
    due_at: int | None  # the next attempt, while it is running
    ended_at: int | None


class FinalisationsOut(Shape, frozen=True, kw_only=True):
    """Newest first."""

    finalisations: list[FinalisationOut]


finalisation_view: Callable[[Finalisation], FinalisationOut] = view_of(
    FinalisationOut,
    id="origin",
    state="step",
    model=or_none("model"),
    reason=or_none("reason"),
    due_at=lambda one: None if one.ended else one.due_at,
)
finalisations_view = list_of(FinalisationsOut, finalisation_view)


class OutgoingReply(Shape, frozen=True, kw_only=True):
    """One reply to a platform."""

    id: str
    agent: str
    channel: str
    address: str
    message: str  # the message that it answers
    state: str
    attempt: int  # of the current piece
    parts_sent: int
    possible_duplicate: bool  # the platform may show a piece of it twice
    committed_at: int
    due_at: int | None  # the next attempt, while the reply is not settled
    receipt: str | None  # the platform's ids of the posted pieces, separated by spaces
    reason: str | None
    draft: str | None  # the draft that was shown before: replaced, gone, unknown (it may still be visible)


class OutgoingReplies(Shape, frozen=True, kw_only=True):
    """Newest first; `next` is the value of `after` for the next page."""

    replies: list[OutgoingReply]
    next: int | None


reply_view: Callable[[PostedReply], OutgoingReply] = view_of(
    OutgoingReply, committed_at="at", due_at=lambda one: one.due_at if one.state in ON_ITS_WAY else None
)
replies_view = page_of(OutgoingReplies, reply_view)


class ApprovalDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision of an operator. The agent sees the reason of a denial.

    With `digest`, the decision applies only if the tool call has this digest. It may be omitted unless the question
    was cut.
    """

    decision: Literal["approve", "deny"]
    reason: str = ""
    digest: str = ""


class PendingApproval(Shape, frozen=True, kw_only=True):
    """A tool call that waits, or waited, for a human. `decision` is null while it is open.

    `digest` is the SHA-256, in hex, of the bytes of `salt` (also hex), the tool's name, a line feed and the arguments:
    exactly the call that will run. Both are empty after the conversation was forgotten; `salt` is empty for a question
    from before digests existed. `cut` is true if the question in the chat omitted a part of the arguments.
    """

    id: str
    agent: str
    session: str
    turn: int
    tool: str
    arguments: str  # complete, as the tool gets them
    digest: str
    salt: str
    cut: bool
    chat: str  # the address of the conversation
    asked_by: str
    asked_at: int
    due_at: int
    decision: str | None
    decided_at: int | None
    decided_by: str | None


class WholeApproval(PendingApproval, frozen=True, kw_only=True):
    """A tool call that waits, or waited, for a human, in readable form.

    `shown` has all of the arguments, one value per line. Characters that are invisible, or that move others, are
    written as JSON escapes.
    """

    shown: str


class ApprovalList(Shape, frozen=True, kw_only=True):
    """Open approvals, oldest first; with `state=all`, all approvals, newest first."""

    approvals: list[PendingApproval]


APPROVAL_SOURCES: dict[str, Source] = {"salt": lambda one: one.salt.hex(), "chat": "address", "asked_by": "principal"}
approval_view: Callable[[ApprovalView], PendingApproval] = view_of(PendingApproval, **APPROVAL_SOURCES)
whole_approval_view: Callable[[ApprovalView], WholeApproval] = view_of(
    WholeApproval, **APPROVAL_SOURCES, shown=lambda one: full_arguments(one.arguments)
)
approvals_view = list_of(ApprovalList, approval_view)
