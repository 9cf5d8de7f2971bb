"""The part of the store that keeps who may come in and who is whom."""

from collections.abc import Sequence

from holdfast.core.access import PAIRING, Asked, PairingAsk, PairingDecision, PairingPolicy, PairingView
from holdfast.core.identity import ChatMove, Link, LinkRequest, Moved
from holdfast.core.ids import AgentName, OperationId, Principal
from holdfast.core.key import Address
from holdfast.ports.access_store import LISTED_MAX
from holdfast.stores.action_verbs import ActionVerbs
from holdfast.stores.verbs import access, identity


class AccessVerbs(ActionVerbs):
    """Implements the ports `AccessStore` and `AccessReader`."""

    async def ask_pairing(self, ask: PairingAsk, *, policy: PairingPolicy = PAIRING) -> Asked:
        return await self._db.write("ask_pairing", lambda: access.ask_pairing(ask, policy))

    async def decide_pairing(self, decision: PairingDecision, *, policy: PairingPolicy = PAIRING) -> PairingView:
        return await self._act("decide_pairing", lambda by: access.decide_pairing(decision, policy, by))

    async def unpair(
        self, principal: Principal, *, agent: AgentName | None = None, by: str, operation: OperationId
    ) -> Sequence[str]:
        return await self._act("unpair", lambda who: access.unpair(principal, agent, by, operation, who))

    async def link(self, request: LinkRequest) -> Link:
        return await self._act("link", lambda by: identity.link(request, by))

    async def unlink(self, principal: Principal, *, by: str, operation: OperationId) -> Link | None:
        return await self._act("unlink", lambda who: identity.unlink(principal, by, operation, who))

    async def move_address(self, old: Address, new: Address, *, by: str, operation: OperationId) -> Moved:
        return await self._act("move_address", lambda who: identity.move_address(old, new, by, operation, who))

    async def move_chat(self, move: ChatMove) -> Moved:
        return await self._db.write("move_chat", lambda: identity.move_chat(move), name=identity.moving(move.agent))

    async def admitted(self, agent: AgentName, principal: Principal) -> bool:
        return await self._db.read("admitted", lambda: access.admitted(agent, principal))

    async def pairings(
        self, *, agent: AgentName | None = None, limit: int = LISTED_MAX, policy: PairingPolicy = PAIRING
    ) -> Sequence[PairingView]:
        return await self._db.read("pairings", lambda: access.pairings(agent, policy, limit))

    async def links(self, *, limit: int = LISTED_MAX) -> Sequence[Link]:
        return await self._db.read("links", lambda: identity.links(limit))

    async def kin(self, principal: Principal) -> Sequence[Principal]:
        return await self._db.read("kin", lambda: identity.kin(principal))
