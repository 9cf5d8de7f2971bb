"""Membership: registers this process as a node that may claim, renews its lease, and polls for what is due.

A node that was declared dead (after a long pause) registers again under a new id: its old claims stay void.

The poll is the only one of a node. This process's notifier does not see the writes of other processes (D29), and work
becomes due with time; the other loops wait until they are woken. A poll is one statement: the renewal of the lease
returns what is due next, and so does the look between two renewals.
"""

from dataclasses import dataclass

from holdfast.kernel import log
from holdfast.kernel.errors import NodeLost
from holdfast.kernel.ids import Instant, NodeId
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.store.node_sql import Upcoming, read_upcoming, reap_nodes, register_node, renew_node, retire_node
from holdfast.store.ports import Ports
from holdfast.store.upkeep_sql import prune_messages

LEASE_MS = 15_000
RENEWALS_PER_LEASE = 5
RENEW_EVERY_MS = LEASE_MS // RENEWALS_PER_LEASE
LOOK_EVERY_MS = 1_250  # at most
LOOKS_PER_LEASE = 10  # at least


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePolicy:
    """When finished messages become tombstones, and how many per batch."""

    after_ms: int = 30 * 24 * 3_600_000
    every_steps: int = 250
    on_every_steps: int = 10  # while more than one batch is left
    batch: int = 500


class Member:
    """The current node id of this process."""

    def __init__(self, ports: Ports, *, host: str) -> None:
        self._ports = ports
        self._host = host
        self.node = NodeId("")

    async def join(self, *, sole: bool) -> None:
        node = NodeId(self._ports.new_id("node"))
        await self._ports.db.write(register_node(node, self._host, sole=sole))
        self.node = node
        log.info("node.registered", node=node, sole=sole)

    async def leave(self) -> None:
        await self._ports.db.write(retire_node(self.node))


class Reaper(Loop):
    """Renews this node's lease, wakes the loops whose work is due, voids claims of dead nodes, prunes old messages."""

    name = "reaper"

    def __init__(
        self,
        ports: Ports,
        member: Member,
        *,
        lease_ms: int = LEASE_MS,
        prune: PrunePolicy | None = None,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._member = member
        self._lease_ms = lease_ms
        self._look_every_ms = min(LOOK_EVERY_MS, lease_ms // LOOKS_PER_LEASE)
        self._renewed_at = Instant(-lease_ms)
        self._steps = 0
        self._policy = prune or PrunePolicy()
        self._prune_every = self._policy.every_steps

    async def step(self) -> bool:
        upcoming = await self._look()
        self._announce(upcoming)
        silent_ms = 0 if upcoming.silent_since is None else upcoming.now - upcoming.silent_since
        if upcoming.orphaned or silent_ms >= self._lease_ms:
            await self._reap()
        self._steps += 1
        if self._steps % self._prune_every == 0:
            await self._prune()
        return False

    async def _look(self) -> Upcoming:
        now = self._ports.clock.now()
        if 0 <= now - self._renewed_at < self._lease_ms / RENEWALS_PER_LEASE - self._look_every_ms / 2:
            return await self._ports.db.read(read_upcoming())
        try:
            upcoming = await self._ports.db.write(renew_node(self._member.node))
        except NodeLost as lost:
            log.warning("node.lost", node=self._member.node, why=str(lost))
            await self._member.join(sole=False)
            upcoming = await self._ports.db.read(read_upcoming())
        self._renewed_at = now
        return upcoming

    def _announce(self, upcoming: Upcoming) -> None:
        """Wake each loop when its next work is due, if that is before the next look."""
        for topic, due_at in (
            (Topic.MAIL, upcoming.mail_at),
            (Topic.DELIVERY, upcoming.lane_at),
            (Topic.DELIVERY, upcoming.overdue_at),
            (Topic.REPLY, upcoming.reply_at),
            (Topic.FINISH, upcoming.finish_at),
        ):
            if due_at is not None and due_at - upcoming.now <= self._look_every_ms:
                self._ports.notifier.wake_in(topic, due_at - upcoming.now)

    async def _prune(self) -> None:
        self._prune_every = self._policy.every_steps  # also after a failure: renewing the lease comes first
        pruned = await self._ports.db.write(
            prune_messages(older_than_ms=self._policy.after_ms, limit=self._policy.batch, secret=self._ports.secret)
        )
        if pruned >= self._policy.batch:
            self._prune_every = self._policy.on_every_steps
        if pruned:
            log.info("inbound.pruned", count=pruned)

    async def _reap(self) -> None:
        reaped = await self._ports.db.write(reap_nodes(lease_ms=self._lease_ms))
        if reaped.nodes:
            log.warning("node.reaped", nodes=reaped.nodes, claims=reaped.claims, operations=reaped.operations)
        for topic in (Topic.MAIL, Topic.DELIVERY, Topic.REPLY, Topic.FINISH):
            self._ports.notifier.wake(topic)

    async def rest(self) -> None:
        await self._ports.tasks.sleep(self._look_every_ms)
