"""The ledger of what models cost."""

from typing import Protocol

from holdfast.kernel.ids import AgentName, Instant
from holdfast.turns.spend import Spend


class SpendLedger(Protocol):
    async def record_spend(self, spent: Spend) -> None:
        """One answer that was paid for, at the store's time. Repeating it under its id changes nothing."""
        ...

    async def spent(self, agent: AgentName, since: Instant) -> int:
        """Millionths of a dollar that an agent's models cost since an instant."""
        ...
