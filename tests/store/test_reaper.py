"""The promise: what one round of pruning leaves behind is not left for long."""

from holdfast.kernel.ids import Instant
from holdfast.store.membership import Member, PrunePolicy, Reaper
from holdfast.store.node_sql import Reaped, Upcoming
from tests.support.ports import VerbMethods, make_ports

POLICY = PrunePolicy()


class Attic:
    """A store with this many messages that are old enough to go."""

    def __init__(self, old):
        self.old = old
        self.prunings = 0

    async def renew_node(self, node):
        return Upcoming(Instant(0))

    async def read_upcoming(self):
        return Upcoming(Instant(0))

    async def reap_nodes(self, *, lease_ms):
        return Reaped(nodes=0, claims=0, operations=0)

    async def prune_messages(self, *, older_than_ms, limit, secret):
        self.prunings += 1
        pruned = min(limit, self.old)
        self.old -= pruned
        return pruned


async def after(steps, store):
    ports = make_ports(VerbMethods(store))
    reaper = Reaper(ports, Member(ports, host="here"))
    for _ in range(steps):
        await reaper.step()
    return store


async def test_pruning_goes_on_soon_while_there_is_more_to_prune():
    store = await after(POLICY.every_steps + 3 * POLICY.on_every_steps, Attic(3 * POLICY.batch + 1))
    assert store.old == 0


async def test_where_little_is_old_it_is_looked_for_rarely():
    store = await after(2 * POLICY.every_steps, Attic(POLICY.batch - 1))
    assert store.prunings == 2
