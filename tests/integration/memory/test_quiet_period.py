"""A write to Honcho that was cut off waits for its quiet period, and only what depends on it waits with it.

Real: the courier, the store, the vendor's client and a socket. The clock is jumped from one due time to the next, so a
test counts quiet periods and takes none of them.
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.core.ids import AgentName, NodeId
from holdfast.core.memory import Applied, Capacity, Change, MemoryBatch, MemoryVerb, Target
from holdfast.loops.bell import Bell
from holdfast.loops.courier import Courier
from holdfast.loops.providers import Providers
from holdfast.machine import AsyncTasks
from holdfast.ports.provider import ProviderSetup
from holdfast.providers.honcho import make_honcho
from holdfast.stores.sqlite.inline import InlineDatabase
from holdfast.stores.store import SqlStore
from holdfast.testing import ManualClock, SeededEntropy
from tests.integration.fakes import soon
from tests.integration.honcho.kit import NAME

AGENT = AgentName("main")
MANY = 50
QUIET_MS = 30_000
ROOM = Capacity(memory_chars=100_000, user_chars=100_000)


class ByHand:
    """A courier that is stepped, on a clock that is jumped."""

    def __init__(self, store: SqlStore, clock: ManualClock, url: str, folder: Any) -> None:
        self.store, self.clock = store, clock
        tasks, entropy = AsyncTasks(), SeededEntropy(1)
        setup = ProviderSetup(
            name=NAME,
            agent=AGENT,
            settings={"url": url},
            folder=folder,
            environment={},
            clock=clock,
            entropy=entropy,
            tasks=tasks,
        )
        self.providers = Providers(lambda _agent: {NAME: make_honcho(setup)})
        self.courier = Courier(
            store=store,
            providers=self.providers,
            member=cast("Any", SimpleNamespace(node=NodeId("n"))),
            notifier=Bell(),
            clock=clock,
            entropy=entropy,
            tasks=tasks,
        )

    async def note(self, n: int, text: str, *, old: str = "", verb: MemoryVerb = MemoryVerb.ADD) -> None:
        change = Change(verb=verb, target=Target.USER, text=text, old=old)
        policies = self.providers.policies(AGENT)
        batch = MemoryBatch(
            agent=AGENT, subject="ada", origin=f"t:{n}", changes=(change,), capacity=ROOM, policies=policies
        )
        assert isinstance(await self.store.apply_memory(batch), Applied)

    async def settle_due(self) -> None:
        """Until nothing is due now."""
        while await self.courier.step() or any(carrier.calls for carrier in self.courier._carriers.values()):
            await self.courier.drain(60_000)

    async def until_rest(self) -> int:
        """Until nothing is open; how many milliseconds that took by the clock."""
        began = self.clock.now()
        await self.settle_due()
        while (due := await self.store.next_due([*self.courier._carriers])) != (None,):
            reopens = [carrier.circuit.reopens_at for carrier in self.courier._carriers.values()]
            self.clock.jump_to(max(self.clock.now() + 1, *(at for at in due if at is not None), *reopens))
            await self.settle_due()
        return self.clock.now() - began

    async def states(self) -> Counter[str]:
        return Counter(one.state for one in await self.store.deliveries(limit=1_000))


@pytest.fixture
async def by_hand(server, tmp_path):
    clock = ManualClock()
    store = await SqlStore.open(InlineDatabase(tmp_path / "holdfast.db", clock, synchronous="off"), b"k" * 32)
    await store.register_node(NodeId("n"), "here", sole=True)
    made = ByHand(store, clock, server.url, tmp_path)
    yield made
    await made.providers.close()
    await store.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_fifty_conclusions_under_cut_off_writes_take_a_few_quiet_periods(server, by_hand, seed):
    """One lane. Each write that is cut off waits 30 s, and they wait at the same time."""
    faults = ({"kind": "drop_after", "method": "POST"}, {"kind": "reset_before", "method": "POST"})
    cut_off = tuple(fault | {"path": "/conclusions$"} for fault in faults)
    server.fail_often(0.2, seed=seed, faults=cut_off)
    for n in range(MANY):
        await by_hand.note(n, f"conclusion {n}")
    took_ms = await soon(by_hand.until_rest())
    assert await by_hand.states() == {"delivered": MANY}
    assert Counter(row["content"] for row in server.conclusions()) == {f"conclusion {n}": 1 for n in range(MANY)}
    assert took_ms <= 5 * QUIET_MS


async def test_what_changes_a_note_in_doubt_waits_for_it_and_the_rest_does_not(server, by_hand):
    await by_hand.note(0, "likes tea")
    await soon(by_hand.until_rest())
    server.fail_next("reset_before", path="/conclusions$", method="POST")
    await by_hand.note(1, "has a cat")
    await soon(by_hand.settle_due())
    await by_hand.note(2, "has a dog", old="has a cat", verb=MemoryVerb.REPLACE)
    await by_hand.note(3, "has two dogs", old="has a dog", verb=MemoryVerb.REPLACE)
    await by_hand.note(4, "is tall")
    await soon(by_hand.settle_due())
    assert sorted(row["content"] for row in server.conclusions()) == ["is tall", "likes tea"]
    assert await by_hand.states() == {"delivered": 2, "uncertain": 1, "scheduled": 2}
    assert QUIET_MS <= await soon(by_hand.until_rest()) < 2 * QUIET_MS
    assert sorted(row["content"] for row in server.conclusions()) == ["has two dogs", "is tall", "likes tea"]
