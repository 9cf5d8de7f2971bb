"""The database of a simulated node: the real one; the world records every claim that it grants.

Mutants that break a guarantee outside of a script replace `write` here.
"""

from collections.abc import Callable

from holdfast.inbox.mailbox import Claim
from holdfast.memory.lane import LaneClaim
from holdfast.store.ports import Database
from holdfast.store.script import Call, R


class NodeDatabase:
    """Implements `Database` over another one."""

    def __init__(
        self, inner: Database, claims: list[Claim], lane_claims: list[LaneClaim], looked: Callable[[], None]
    ) -> None:
        self.inner = inner
        self._claims, self._lane_claims = claims, lane_claims
        self._looked = looked  # called before each read of the amount spent

    async def write(self, call: Call[R]) -> R:
        value = await self.inner.write(call)
        if call.verb == "claim_work":
            self._claims.extend(work.claim for work in value)  # type: ignore[attr-defined]  # the result of this verb
        elif call.verb == "claim_lanes":
            self._lane_claims.extend(value)  # type: ignore[arg-type]  # the result of this verb
        return value

    async def read(self, call: Call[R]) -> R:
        if call.verb == "sum_spent":
            self._looked()
        return await self.inner.read(call)

    async def changed(self) -> bool:
        return await self.inner.changed()

    async def scrub(self) -> str:
        return await self.inner.scrub()

    def wal_bytes(self) -> int:
        return self.inner.wal_bytes()

    async def close(self) -> None:
        await self.inner.close()
