"""Approvals service: an operator's decisions on waiting tool calls, from any process that has the store open."""

from collections.abc import Sequence

from holdfast.audit.actor import acting
from holdfast.kernel import log
from holdfast.kernel.ids import ApprovalId
from holdfast.kernel.notifier import Event, Topic
from holdfast.store.ports import Ports
from holdfast.turns.approval import ApprovalView, Decision, typed_id
from holdfast.turns.approval_sql import decide_approval
from holdfast.turns.approval_view_sql import find_approval, list_approvals
from holdfast.turns.call_view import short_digest


class Approvals:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def list(
        self, *, decided: bool = False, agent: str | None = None, limit: int = 100
    ) -> Sequence[ApprovalView]:
        return await self._ports.db.read(list_approvals(decided=decided, agent=agent, limit=limit))

    async def find(self, approval: ApprovalId) -> ApprovalView:
        return await self._ports.db.read(find_approval(typed_id(approval)))

    async def decide(
        self, approval: ApprovalId, decision: Decision, *, by: str = "operator", reason: str = "", digest: str = ""
    ) -> ApprovalView:
        found = await self._ports.db.write(
            decide_approval(typed_id(approval), decision, named=by, reason=reason, digest=digest, by=acting())
        )
        log.info(
            "approval.decided",
            approval=found.id,
            session=found.session,
            tool=found.tool,
            by=by,
            digest=short_digest(found.digest),
        )
        self._ports.notifier.publish(Event(name="approval.decided", session=found.session, mailbox=found.mailbox))
        self._ports.notifier.wake(Topic.MAIL)
        return found
