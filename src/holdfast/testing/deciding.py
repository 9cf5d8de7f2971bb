"""An operator who decides about deliveries and replies in doubt: what arrived is settled, other items are given up.

The operator looks at the provider or the chat first and tells the truth: what is settled as arrived is there.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.kernel.ids import AgentName, Provider
from holdfast.memory.lane import LaneKey
from holdfast.repair.plan import Repaired, RepairFilter, RepairSubject, RepairVerb
from holdfast.runtime.runtime import Runtime
from holdfast.testing.client import Client

if TYPE_CHECKING:
    from holdfast.testing.world import World

LOOKS = 12
PAUSE_S_MAX = 1.5
SETTLE_SHARE = 0.7
DROP_SHARE = 0.3
DELIVERIES = """
select id, agent, provider from delivery
 where state in ('scheduled', 'uncertain', 'parked') and attempt > 0 and op <> 'erase' order by n"""
REPLIES = "select id from reply where state in ('uncertain', 'failed') and decided_by is null order by n"


async def decide(world: "World") -> None:
    rng = random.Random(f"{world.seed}/repairs")
    client = Client(rng, world.live, world.loop.note)
    for _ in range(LOOKS):
        await asyncio.sleep(rng.random() * PAUSE_S_MAX)
        for ident, agent, provider in world.observer().execute(DELIVERIES).fetchall():
            server = world.memory.servers.get(LaneKey(AgentName(str(agent)), Provider(str(provider))))
            arrived = server is not None and any(parcel.id == ident for parcel in server.effects)
            verb = RepairVerb.SETTLE if arrived else RepairVerb.DROP
            if rng.random() < (SETTLE_SHARE if arrived else DROP_SHARE):
                await _repair(world, client, verb, RepairSubject.DELIVERY, str(ident))
        for (ident,) in world.observer().execute(REPLIES).fetchall():
            if rng.random() < DROP_SHARE:
                await _repair(world, client, RepairVerb.DROP, RepairSubject.REPLY, str(ident))


async def _repair(world: "World", client: Client, verb: RepairVerb, subject: RepairSubject, ident: str) -> None:
    async def ask(node: Runtime) -> Sequence[Repaired]:
        plan = await node.repairs.plan(verb, subject, RepairFilter(ids=(ident,)))
        return await node.repairs.carry_out(plan)

    await client.until_heard(f"{verb.value} {ident}", ask)
    world.counts["repair"] += 1
