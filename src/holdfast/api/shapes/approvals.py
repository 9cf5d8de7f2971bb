"""The outside surface of approvals as JSON shapes. The rest is in surface.py."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, structs

from holdfast.api.shapes.shapes import Shape
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.call_view import full_arguments

DECISIONS = {"approve": Decision.APPROVED, "deny": Decision.DENIED}


class ApprovalDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator says. The reason of a denial is told to the agent.

    With `digest`, the decision is taken only if the call is the one with this digest. It may be left out, unless the
    question was cut.
    """

    decision: Literal["approve", "deny"]
    reason: str = ""
    digest: str = ""


class PendingApproval(Shape, frozen=True, kw_only=True):
    """A tool call that waits, or waited, for a human. `decision` is null while it is open.

    `digest` is the SHA-256, in hex, of the bytes of `salt` (which is hex too), the tool's name, a line feed and the
    arguments: exactly what will run. Both are empty once the words were forgotten; `salt` is empty for a question that
    was asked before there were digests. `cut`: the question in the chat left out a part of the arguments.
    """

    id: str
    agent: str
    session: str
    turn: int
    tool: str
    arguments: str  # all of them, as the tool gets them
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
    """A tool call that waits, or waited, for a human, as a person reads it.

    `shown` is all of the arguments, one value on a line. Characters that a reader does not see, or that move others,
    are written as JSON escapes.
    """

    shown: str


class ApprovalList(Shape, frozen=True, kw_only=True):
    """Those that wait, oldest first; all of them, newest first, where that was asked for."""

    approvals: list[PendingApproval]


def approval_view(found: ApprovalView) -> PendingApproval:
    return PendingApproval(
        id=found.id,
        agent=found.agent,
        session=found.session,
        turn=found.turn,
        tool=found.tool,
        arguments=found.arguments,
        digest=found.digest,
        salt=found.salt.hex(),
        cut=found.cut,
        chat=found.address,
        asked_by=found.principal,
        asked_at=found.asked_at,
        due_at=found.due_at,
        decision=found.decision.value if found.decision else None,
        decided_at=found.decided_at,
        decided_by=found.decided_by,
    )


def whole_approval_view(found: ApprovalView) -> WholeApproval:
    return WholeApproval(**structs.asdict(approval_view(found)), shown=full_arguments(found.arguments))


def approvals_view(found: Sequence[ApprovalView]) -> ApprovalList:
    return ApprovalList(approvals=[approval_view(one) for one in found])
