"""The desk of approvals: what an operator may ask about tool calls that wait for a human, and say to them."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.kernel.ids import ApprovalId
from holdfast.turns.approval import ApprovalView, Decision


class Approvals(Protocol):
    async def list(
        self, *, decided: bool = False, agent: str | None = None, limit: int = 100
    ) -> Sequence[ApprovalView]:
        """Those that wait, oldest first; with `decided`, all of them, newest first."""
        ...

    async def find(self, approval: ApprovalId) -> ApprovalView:
        """Raises `ApprovalNotFound`."""
        ...

    async def decide(
        self, approval: ApprovalId, decision: Decision, *, by: str = "operator", reason: str = "", digest: str = ""
    ) -> ApprovalView:
        """As it is afterwards: what was decided before, or came too late, stays.

        Raises `ApprovalNotFound`, `ApprovalChanged` for a digest of another call, and `ApprovalDigestNeeded` for none
        where the question left out a part of the arguments.
        """
        ...
