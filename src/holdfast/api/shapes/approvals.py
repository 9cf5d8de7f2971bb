"""The JSON shapes of approvals."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import Source, list_of, view_of
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.call_view import full_arguments

DECISIONS = {"approve": Decision.APPROVED, "deny": Decision.DENIED}


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


SOURCES: dict[str, Source] = {"salt": lambda one: one.salt.hex(), "chat": "address", "asked_by": "principal"}
approval_view: Callable[[ApprovalView], PendingApproval] = view_of(PendingApproval, **SOURCES)
whole_approval_view: Callable[[ApprovalView], WholeApproval] = view_of(
    WholeApproval, **SOURCES, shown=lambda one: full_arguments(one.arguments)
)
approvals_view = list_of(ApprovalList, approval_view)
