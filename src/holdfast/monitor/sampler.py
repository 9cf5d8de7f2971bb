"""The sampler: counts what this node does, and stores the numbers once a minute."""

from collections import Counter, deque
from collections.abc import Mapping

from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Event
from holdfast.monitor.queues_sql import read_queues
from holdfast.monitor.sample import Sample, SampleSpan, levels_of
from holdfast.monitor.sample_sql import record_sample
from holdfast.store.membership import Member
from holdfast.store.ports import Ports

KEYS_MAX = 5_000  # names of one minute; agents and providers are few
UNSTORED_MAX = 60  # minutes
# What is counted of each event, and by which of its fields.
COUNTED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "message.accepted": ("accepted", ("agent",)),
    "turn.answered": ("answered", ("agent",)),
    "turn.failed": ("failed", ("agent",)),
    "turn.interrupted": ("interrupted", ("agent",)),
    "compress.done": ("compressions", ("agent",)),
    "reply.settled": ("replies", ("state", "agent", "channel")),
    "delivery.settled": ("deliveries", ("state", "agent", "provider")),
}
ACTIVITY = "turn.activity"


class Sampler(Loop):
    name = "sampler"

    def __init__(self, ports: Ports, member: Member) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._member = member
        self._counts: Counter[str] = Counter()
        self._minute = SampleSpan.MINUTE.start_of(ports.clock.now())
        self._unstored: deque[Sample] = deque(maxlen=UNSTORED_MAX)
        ports.notifier.tap(self.hear)

    def hear(self, event: Event) -> None:
        """Count an event. Its fields name configured things only, never what people write."""
        fields = event.fields
        if event.name == ACTIVITY:
            agent, kind = fields.get("agent", ""), fields.get("kind", "")
            self._count(f"{kind}/{agent}", 1)
            self._count(f"{kind} ms/{agent}", fields.get("duration_ms"))
            for name in ("tokens_in", "tokens_out"):
                self._count(f"{name}/{agent}", fields.get(name))
        elif event.name in COUNTED:
            what, by = COUNTED[event.name]
            self._count("/".join((what, *(str(fields.get(name, "")) for name in by))), 1)

    def _count(self, name: str, number: object) -> None:
        if isinstance(number, int) and number and (name in self._counts or len(self._counts) < KEYS_MAX):
            self._counts[name] += number

    async def step(self) -> bool:
        """Store the minute that ended. One that cannot be stored is kept for the next step."""
        minute = SampleSpan.MINUTE.start_of(self._ports.clock.now())
        if minute != self._minute:
            levels = levels_of(await self._ports.db.read(read_queues()))
            ended = Sample(span=SampleSpan.MINUTE, at=self._minute, counts=dict(self._counts), levels=levels)
            self._unstored.append(ended)
            self._counts.clear()
            self._minute = minute
        while self._unstored:
            await self._ports.db.write(record_sample(self._member.node, self._unstored[0]))
            self._unstored.popleft()
        return False

    async def rest(self) -> None:
        left_ms = self._minute + SampleSpan.MINUTE.length_ms - self._ports.clock.now()
        await self._ports.tasks.sleep(max(1, min(left_ms, SampleSpan.MINUTE.length_ms)))
