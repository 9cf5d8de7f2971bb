"""The store's verbs about what models cost."""

from collections.abc import Sequence

from holdfast.kernel.ids import AgentName, Instant
from holdfast.store.database import Database
from holdfast.turns import spend_sql
from holdfast.turns.spend import Spend, SpendTotal


class SpendVerbs:
    """Implements the port `SpendLedger`, and its part of `Reader`."""

    _db: Database

    async def record_spend(self, spent: Spend) -> None:
        await self._db.write("record_spend", lambda: spend_sql.record_spend(spent))

    async def spent(self, agent: AgentName, since: Instant) -> int:
        return await self._db.read("spent", lambda: spend_sql.sum_spent(agent, since))

    async def spend_by_model(self, *, days: int = 1, agent: AgentName | None = None) -> Sequence[SpendTotal]:
        return await self._db.read("spend_by_model", lambda: spend_sql.sum_spend_by_model(days, agent))
