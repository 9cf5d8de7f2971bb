"""The part of the store that keeps who may come in and who is whom."""

from collections.abc import Sequence

from holdfast.inbox import access_sql, identity_sql
from holdfast.inbox.access import PAIRING, Asked, PairingAsk, PairingDecision, PairingPolicy, PairingView
from holdfast.inbox.address import Address
from holdfast.inbox.identity import ChatMove, Link, LinkRequest, Moved
from holdfast.kernel.ids import AgentName, OperationId, Principal
from holdfast.store.protocols.access_store import LISTED_MAX
from holdfast.store.verbs.action_verbs import ActionVerbs


class AccessVerbs(ActionVerbs):
    """Implements the ports `AccessStore` and `AccessReader`."""

    async def ask_pairing(self, ask: PairingAsk, *, policy: PairingPolicy = PAIRING) -> Asked:
        return await self._db.write("ask_pairing", lambda: access_sql.ask_pairing(ask, policy))

    async def decide_pairing(self, decision: PairingDecision, *, policy: PairingPolicy = PAIRING) -> PairingView:
        return await self._act("decide_pairing", lambda by: access_sql.decide_pairing(decision, policy, by))

    async def unpair(
        self, principal: Principal, *, agent: AgentName | None = None, by: str, operation: OperationId
    ) -> Sequence[str]:
        return await self._act("unpair", lambda who: access_sql.unpair(principal, agent, by, operation, who))

    async def link(self, request: LinkRequest) -> Link:
        return await self._act("link", lambda by: identity_sql.link_principals(request, by))

    async def unlink(self, principal: Principal, *, by: str, operation: OperationId) -> Link | None:
        return await self._act("unlink", lambda who: identity_sql.unlink_principal(principal, by, operation, who))

    async def move_address(self, old: Address, new: Address, *, by: str, operation: OperationId) -> Moved:
        return await self._act("move_address", lambda who: identity_sql.move_address(old, new, by, operation, who))

    async def move_chat(self, move: ChatMove) -> Moved:
        return await self._db.write(
            "move_chat", lambda: identity_sql.move_chat(move), name=identity_sql.moving(move.agent)
        )

    async def admitted(self, agent: AgentName, principal: Principal) -> bool:
        return await self._db.read("admitted", lambda: access_sql.is_admitted(agent, principal))

    async def pairings(
        self, *, agent: AgentName | None = None, limit: int = LISTED_MAX, policy: PairingPolicy = PAIRING
    ) -> Sequence[PairingView]:
        return await self._db.read("pairings", lambda: access_sql.list_pairings(agent, policy, limit))

    async def links(self, *, limit: int = LISTED_MAX) -> Sequence[Link]:
        return await self._db.read("links", lambda: identity_sql.list_links(limit))

    async def kin(self, principal: Principal) -> Sequence[Principal]:
        return await self._db.read("kin", lambda: identity_sql.linked_principals(principal))
