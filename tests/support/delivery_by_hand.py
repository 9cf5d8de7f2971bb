"""A dispatcher that a test steps, with a real store and a real provider, on a clock that the test moves.

A test counts virtual time and takes none of it; the provider may speak over a socket.
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from holdfast.kernel.ids import AgentName, Instant, NodeId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.notifier import Topic
from holdfast.memory.dispatcher import Dispatcher
from holdfast.memory.lane_sql import next_due
from holdfast.memory.notes import Applied, Capacity, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.memory.provider import Configured, Providers
from holdfast.sessions.history_sql import list_deliveries
from holdfast.store.node_sql import register_node
from holdfast.store.ports import Database
from holdfast.testing import ManualClock, SeededEntropy
from tests.support.ports import make_ports

AGENT = AgentName("main")
ROOM = Capacity(memory_chars=100_000, user_chars=100_000)


class ByHand:
    """A dispatcher that a test steps, on a clock that it moves."""

    def __init__(self, db: Database, clock: ManualClock, configured: Configured, name: ProviderName) -> None:
        self.db, self.clock = db, clock
        self.providers = Providers(lambda _agent: {name: configured})
        self.ports = make_ports(db, clock=clock, entropy=SeededEntropy(1))
        self.dispatcher = Dispatcher(
            self.ports,
            providers=self.providers,
            member=cast("Any", SimpleNamespace(node=NodeId("n"))),
        )

    async def note(
        self, n: int, text: str, *, old: str = "", verb: MemoryVerb = MemoryVerb.ADD, subject: str = "ada"
    ) -> None:
        change = NoteChange(verb=verb, target=Target.USER, text=text, old=old)
        policies = self.providers.policies(AGENT)
        batch = MemoryBatch(
            agent=AGENT, subject=subject, origin=f"t:{n}", changes=(change,), capacity=ROOM, policies=policies
        )
        assert isinstance(await self.db.write(apply_memory(batch)), Applied)

    async def settle_due(self) -> None:
        """Until nothing is due now."""
        self.ports.notifier.wake(Topic.DELIVERY)
        while await self.dispatcher.step() or len(self.dispatcher.running):
            await self.dispatcher.drain(60_000)

    async def run_for(self, wait_ms: int) -> None:
        until = self.clock.now() + wait_ms
        await self.settle_due()
        while (at := await self._next()) is not None and at < until:
            self.clock.jump_to(at)
            await self.settle_due()
        self.clock.jump_to(Instant(until))

    async def _next(self) -> Instant | None:
        """When something can be done next; None when nothing is open."""
        due = (await self.db.read(next_due()))[1].values()
        reopens = [call.circuit.reopens_at for call in self.dispatcher._deliveries.values()]
        return Instant(max(self.clock.now() + 1, min(due), *reopens)) if due else None

    async def until_rest(self) -> int:
        """Until nothing is open; how many milliseconds that took by the clock."""
        began = self.clock.now()
        await self.settle_due()
        while (at := await self._next()) is not None:
            self.clock.jump_to(at)
            await self.settle_due()
        return self.clock.now() - began

    async def states(self) -> Counter[str]:
        return Counter(one.state for one in await self.db.read(list_deliveries(limit=1_000)))


async def stepped(database: Any, clock: ManualClock, configured: Configured, name: ProviderName) -> ByHand:
    db = database
    await db.write(register_node(NodeId("n"), "here", sole=True))
    return ByHand(db, clock, configured, name)
