"""The action log: lists the audit trail, and records acts outside the store."""

from collections.abc import Sequence

from holdfast.audit.action import EVERY_ACTION, Act, Action, ActionFilter
from holdfast.audit.action_sql import list_actions, record_action, refuse_action
from holdfast.audit.actor import acting
from holdfast.kernel import log
from holdfast.store.ports import Ports


class ActionLog:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def list(self, wanted: ActionFilter = EVERY_ACTION, *, after: int = 0, limit: int = 100) -> Sequence[Action]:
        return await self._ports.db.read(list_actions(wanted, after=after, limit=limit))

    async def record(self, act: Act, subject: str = "") -> None:
        await self._ports.db.write(record_action(act, subject, by=acting()))

    async def refuse(self, act: Act, subject: str, code: str) -> None:
        await self._ports.db.write(refuse_action(act, subject, code, by=acting()))
        log.warning("action.refused", act=act.stored, actor=acting().id, code=code)
