"""The temporary lease: renews this node's lease while a process that serves nothing runs an operation."""

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, NodeLost
from holdfast.kernel.tasks import Task
from holdfast.store.membership import RENEW_EVERY_MS, Member
from holdfast.store.node_sql import renew_node
from holdfast.store.ports import Ports


class TemporaryLease:
    def __init__(
        self,
        ports: Ports,
        member: Member,
    ) -> None:
        self._ports = ports
        self._member = member
        self._renewal: Task | None = None

    @property
    def is_open(self) -> bool:
        return self._renewal is not None

    async def begin(self) -> None:
        if self._renewal is None:
            await self._member.join(sole=False)
            self._renewal = self._ports.tasks.start(self._renew(), name="visit")

    async def _renew(self) -> None:
        while True:
            await self._ports.tasks.sleep(RENEW_EVERY_MS)
            try:
                await self._ports.db.write(renew_node(self._member.node))
            except NodeLost as lost:
                log.warning("node.lost", node=self._member.node, why=str(lost))
                return
            except HoldfastError as error:  # the lease survives several missed renewals
                log.warning("loop.failed", loop="temporary_lease", code=error.code, why=str(error))

    async def end(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        try:
            await self._member.leave()
        except HoldfastError as error:
            log.warning("node.lost", node=self._member.node, why=str(error))
