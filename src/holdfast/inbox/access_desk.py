"""The desk of access: an operator's decisions about strangers, people and places, each with an id of its own."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from holdfast.inbox.access import PLATFORMS, PairingDecision, PairingView, check_account, read_code
from holdfast.inbox.address import agent_name, check_part, parse
from holdfast.inbox.identity import Link, LinkRequest, Moved
from holdfast.kernel import log
from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.ids import OperationId, Principal, ReplyId, make_id
from holdfast.kernel.notifier_port import Notifier, Topic
from holdfast.store.protocols.access_store import AccessReader, AccessStore


@dataclass(frozen=True, slots=True)
class Desk:
    """Implements `AccessDesk`."""

    store: AccessStore
    reader: AccessReader
    notifier: Notifier
    clock: Clock
    entropy: Entropy
    channels: Callable[[], Collection[str]] = lambda: PLATFORMS  # whose accounts can be a person's

    async def pairs(self, *, agent: str | None = None) -> Sequence[PairingView]:
        return await self.reader.pairings(agent=None if agent is None else agent_name(agent))

    async def pair(
        self, code: str, *, admit: bool = True, by: str = "operator", agents: frozenset[str] = frozenset()
    ) -> PairingView:
        operation, reply = self._operation(), ReplyId(self._id("rep"))
        found = await self.store.decide_pairing(
            PairingDecision(code=read_code(code), admit=admit, by=by, operation=operation, reply=reply, agents=agents)
        )
        log.info("access.decided", agent=found.agent, principal=found.principal, state=found.state.value, by=by)
        self.notifier.wake(Topic.REPLY)  # they are told
        return found

    async def unpair(self, principal: str, *, agent: str | None = None, by: str = "operator") -> Sequence[str]:
        who = Principal(check_part("principal", principal))
        where = None if agent is None else agent_name(agent)
        gone = await self.store.unpair(who, agent=where, by=by, operation=self._operation())
        log.info("access.decided", agents=list(gone), principal=who, state="unpaired", by=by)
        return gone

    async def links(self) -> Sequence[Link]:
        return await self.reader.links()

    async def link(self, principal: str, person: str, *, by: str = "operator") -> Link:
        known = self.channels()
        check_account(principal, known)
        if ":" in person:  # otherwise it is a name of its own
            check_account(person, known)
        ends = {"principal": Principal(principal), "person": Principal(person)}
        made = await self.store.link(LinkRequest(**ends, by=by, operation=self._operation()))
        log.info("identity.changed", what="link", by=by, **ends)
        return made

    async def unlink(self, principal: str, *, by: str = "operator") -> Link | None:
        who = Principal(check_part("principal", principal))
        gone = await self.store.unlink(who, by=by, operation=self._operation())
        if gone is not None:
            log.info("identity.changed", what="unlink", by=by, principal=who, person=gone.person)
        return gone

    async def move(self, old: str, new: str, *, by: str = "operator") -> Moved:
        moved = await self.store.move_address(parse(old), parse(new), by=by, operation=self._operation())
        log.info("identity.changed", what="move", by=by, old=old, new=new, aliases=len(moved.aliases))
        return moved

    def _operation(self) -> OperationId:
        return OperationId(self._id("op"))

    def _id(self, prefix: str) -> str:
        return make_id(prefix, self.clock.now(), self.entropy.bits(80))
