"""The store's verbs about what models cost."""

from collections.abc import Sequence

from holdfast.core.ids import AgentName, Instant
from holdfast.core.spend import Spend, SpendTotal
from holdfast.stores.database import Database
from holdfast.stores.verbs import spend


class SpendVerbs:
    """Implements the port `SpendLedger`, and its part of `Reader`."""

    _db: Database

    async def record_spend(self, spent: Spend) -> None:
        await self._db.write("record_spend", lambda: spend.record_spend(spent))

    async def spent(self, agent: AgentName, since: Instant) -> int:
        return await self._db.read("spent", lambda: spend.spent(agent, since))

    async def spend_by_model(self, *, days: int = 1, agent: AgentName | None = None) -> Sequence[SpendTotal]:
        return await self._db.read("spend_by_model", lambda: spend.spend_by_model(days, agent))
