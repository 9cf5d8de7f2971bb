"""The desk of the audit trail: lists it, and adds to it what happens outside the store."""

from collections.abc import Sequence

from holdfast.audit.action import Act, Action, ActionFilter
from holdfast.audit.actor import acting
from holdfast.kernel import log
from holdfast.store.protocols.action_store import EVERY_ACTION, ActionReader, ActionStore


class ActionDesk:
    """Implements `Actions`."""

    def __init__(self, store: ActionStore, reader: ActionReader) -> None:
        self._store = store
        self._reader = reader

    async def list(self, wanted: ActionFilter = EVERY_ACTION, *, after: int = 0, limit: int = 100) -> Sequence[Action]:
        return await self._reader.actions(wanted, after=after, limit=limit)

    async def record(self, act: Act, subject: str = "") -> None:
        await self._store.record_action(act, subject)

    async def refuse(self, act: Act, subject: str, code: str) -> None:
        await self._store.refuse_action(act, subject, code)
        log.warning("action.refused", act=act.stored, actor=acting().id, code=code)
