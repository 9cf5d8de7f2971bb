"""The approval desk: an operator's decisions about tool calls that wait, from any process that has the store open."""

from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.ids import ApprovalId
from holdfast.kernel.notifier_port import Event, Notifier, Topic
from holdfast.store.protocols.reader import Reader
from holdfast.store.protocols.store import Store
from holdfast.turns.approval import ApprovalView, Decision, typed_id
from holdfast.turns.call_view import short_digest


class ApprovalDesk:
    """Implements `Approvals`."""

    def __init__(self, store: Store, reader: Reader, notifier: Notifier) -> None:
        self._store = store
        self._reader = reader
        self._notifier = notifier

    async def list(
        self, *, decided: bool = False, agent: str | None = None, limit: int = 100
    ) -> Sequence[ApprovalView]:
        return await self._reader.approvals(decided=decided, agent=agent, limit=limit)

    async def find(self, approval: ApprovalId) -> ApprovalView:
        return await self._reader.approval(typed_id(approval))

    async def decide(
        self, approval: ApprovalId, decision: Decision, *, by: str = "operator", reason: str = "", digest: str = ""
    ) -> ApprovalView:
        found = await self._store.decide_approval(typed_id(approval), decision, by=by, reason=reason, digest=digest)
        log.info(
            "approval.decided",
            approval=found.id,
            session=found.session,
            tool=found.tool,
            by=by,
            digest=short_digest(found.digest),
        )
        self._notifier.publish(Event(name="approval.decided", session=found.session, mailbox=found.mailbox))
        self._notifier.wake(Topic.MAIL)
        return found
