"""Access control: an operator's decisions about pairings, links and moved addresses, each with an operation id."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from holdfast.audit.actor import acting
from holdfast.inbox.access import PLATFORMS, PairingDecision, PairingView, check_account, read_code
from holdfast.inbox.access_sql import decide_pairing, list_pairings, unpair
from holdfast.inbox.address import agent_name, check_part, parse
from holdfast.inbox.identity import Link, LinkRequest, Moved
from holdfast.inbox.identity_sql import link_principals, list_links, move_address, unlink_principal
from holdfast.kernel import log
from holdfast.kernel.ids import OperationId, Principal, ReplyId
from holdfast.kernel.notifier import Topic
from holdfast.store.ports import Ports


@dataclass(frozen=True, slots=True)
class AccessControl:
    ports: Ports
    channels: Callable[[], Collection[str]] = lambda: PLATFORMS  # channels whose accounts can be linked

    async def pairs(self, *, agent: str | None = None) -> Sequence[PairingView]:
        return await self.ports.db.read(list_pairings(agent=None if agent is None else agent_name(agent)))

    async def pair(
        self, code: str, *, admit: bool = True, by: str = "operator", agents: frozenset[str] = frozenset()
    ) -> PairingView:
        operation, reply = self._operation(), ReplyId(self.ports.new_id("rep"))
        found = await self.ports.db.write(
            decide_pairing(
                PairingDecision(
                    code=read_code(code), admit=admit, by=by, operation=operation, reply=reply, agents=agents
                ),
                by=acting(),
            )
        )
        log.info("access.decided", agent=found.agent, principal=found.principal, state=found.state.value, by=by)
        self.ports.notifier.wake(Topic.REPLY)  # send the stranger the decision
        return found

    async def unpair(self, principal: str, *, agent: str | None = None, by: str = "operator") -> Sequence[str]:
        who = Principal(check_part("principal", principal))
        where = None if agent is None else agent_name(agent)
        gone = await self.ports.db.write(unpair(who, agent=where, named=by, operation=self._operation(), by=acting()))
        log.info("access.decided", agents=list(gone), principal=who, state="unpaired", by=by)
        return gone

    async def links(self) -> Sequence[Link]:
        return await self.ports.db.read(list_links())

    async def link(self, principal: str, person: str, *, by: str = "operator") -> Link:
        known = self.channels()
        check_account(principal, known)
        if ":" in person:  # without a colon it is a name, not an account
            check_account(person, known)
        ends = {"principal": Principal(principal), "person": Principal(person)}
        made = await self.ports.db.write(
            link_principals(LinkRequest(**ends, by=by, operation=self._operation()), by=acting())
        )
        log.info("identity.changed", what="link", by=by, **ends)
        return made

    async def unlink(self, principal: str, *, by: str = "operator") -> Link | None:
        who = Principal(check_part("principal", principal))
        gone = await self.ports.db.write(unlink_principal(who, named=by, operation=self._operation(), by=acting()))
        if gone is not None:
            log.info("identity.changed", what="unlink", by=by, principal=who, person=gone.person)
        return gone

    async def move(self, old: str, new: str, *, by: str = "operator") -> Moved:
        moved = await self.ports.db.write(
            move_address(parse(old), parse(new), named=by, operation=self._operation(), by=acting())
        )
        log.info("identity.changed", what="move", by=by, old=old, new=new, aliases=len(moved.aliases))
        return moved

    def _operation(self) -> OperationId:
        return OperationId(self.ports.new_id("op"))
