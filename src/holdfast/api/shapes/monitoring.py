"""The JSON shapes that an operator watches: connections, costs, extractions from ended epochs, replies, approvals.

The facts that an extraction found are in memory, and the text of a reply is with its message, not here.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.api.shapes.view import Shape, Source, list_of, or_none, page_of, view_of
from holdfast.inbox.channel_status import ChannelStatus, ToolServerStatus
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import PostedReply
from holdfast.sessions.finalisation import Finalisation
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.call_view import full_arguments
from holdfast.turns.spend_sql import SpendTotal, dollars

DECISIONS = {"approve": Decision.APPROVED, "deny": Decision.DENIED}
ON_ITS_WAY = frozenset({ReplyState.PENDING.value, ReplyState.ATTEMPTING.value})


class ChannelStandings(Shape, frozen=True, kw_only=True):
    """The bot accounts, in the order of the configuration, and whether each is connected to its platform."""

    channels: list[ChannelStatus]


class ToolServers(Shape, frozen=True, kw_only=True):
    """The MCP servers, in the order of the configuration, and whether each is connected."""

    servers: list[ToolServerStatus]


class Spending(Shape, frozen=True, kw_only=True):
    """Days are in UTC and include today. Amounts are in millionths of a dollar; `total` is formatted for people."""

    days: int
    lines: list[SpendTotal]
    total_micros: int
    total: str


def spending_view(found: Sequence[SpendTotal], days: int) -> Spending:
    total = sum(one.cost_micros for one in found)
    return Spending(days=days, lines=list(found), total_micros=total, total=dollars(total))


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
    decided_by: str | None = None  # the person who gave it up, or who said that it arrived


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
