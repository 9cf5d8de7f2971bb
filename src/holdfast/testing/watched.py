"""The store of a simulated node: the real one, with every claim that it gives written down by the world."""

from collections.abc import Callable
from typing import Any

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import AgentName, Instant, NodeId
from holdfast.memory.lane import LaneClaim, LaneKey
from holdfast.store.sql_store import SqlStore


class Watched(SqlStore):
    """The store, with every claim it gives written down by the world."""

    claims: list[Claim]
    lane_claims: list[LaneClaim]
    looked: Callable[[], None]  # told before each look at what was spent

    async def claim_mailboxes(self, node: NodeId, *, name: str = "", limit: int) -> tuple[Claim, ...]:
        claims = await super().claim_mailboxes(node, name=name, limit=limit)
        self.claims.extend(claims)
        return claims

    async def claim_lanes(self, node: NodeId, key: LaneKey, **what: Any) -> tuple[LaneClaim, ...]:  # noqa: ANN401
        claims = await super().claim_lanes(node, key, **what)
        self.lane_claims.extend(claims)
        return claims

    async def spent(self, agent: AgentName, since: Instant) -> int:
        self.looked()
        return await super().spent(agent, since)
