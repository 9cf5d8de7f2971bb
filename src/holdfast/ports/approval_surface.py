"""The outside surface of approvals as JSON shapes. The rest is in surface.py."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from holdfast.core.approval import ApprovalView, Decision
from holdfast.ports.surface import Out

DECISIONS = {"approve": Decision.APPROVED, "deny": Decision.DENIED}


class ApprovalDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator says. The reason of a denial is told to the agent."""

    decision: Literal["approve", "deny"]
    reason: str = ""


class PendingApproval(Out, frozen=True, kw_only=True):
    """A tool call that waits, or waited, for a human. `decision` is null while it is open."""

    id: str
    agent: str
    session: str
    turn: int
    tool: str
    arguments: str
    chat: str  # the address of the conversation
    asked_by: str
    asked_at: int
    due_at: int
    decision: str | None
    decided_at: int | None
    decided_by: str | None


class ApprovalList(Out, frozen=True, kw_only=True):
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
        chat=found.address,
        asked_by=found.principal,
        asked_at=found.asked_at,
        due_at=found.due_at,
        decision=found.decision.value if found.decision else None,
        decided_at=found.decided_at,
        decided_by=found.decided_by,
    )


def approvals_view(found: Sequence[ApprovalView]) -> ApprovalList:
    return ApprovalList(approvals=[approval_view(one) for one in found])
