"""Memory providers beside the turns: providers that stall, are slow or are dead, and how fast a backlog is delivered.

The providers are offered as a plugin's are: through entry points, of a distribution that the child process makes.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import holdfast
from bench.ours.conversations import SAID, Answers, Holdfast
from bench.usage import cpu_s
from bench.work import Task, in_parallel
from holdfast.memory.delivery import Delivered, Landing, Outcome, Parcel, PerSession, Unreachable
from holdfast.memory.provider import Capabilities, Configured, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection

SLOW_S = 0.2
KINDS = ("bench_stalled", "bench_slow", "bench_dead", "bench_batching")
BATCHING = "bench_batching"
LOOK_MS = 1_000


class BenchProvider:
    """Accepts parcels after a delay, never answers, or refuses every connection."""

    made: "BenchProvider"

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.delivered = 0
        self.is_open = asyncio.Event()
        batch = 64 if kind == BATCHING else 1
        self.capabilities = Capabilities(
            renderer="bench/1",
            recalls=False,
            memory=False,
            quiet_ms=0,
            lanes_per_call=batch,
            units_per_lane=batch,
            calls_max=64,
        )

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        if self._kind == "bench_dead":
            return [Unreachable("connection refused") for _ in parcels]
        if self._kind == "bench_slow":
            await asyncio.sleep(SLOW_S)
        else:
            await self.is_open.wait()
        self.delivered += len(parcels)
        return [Delivered("ok") for _ in parcels]

    async def landed(self, parcel: Parcel) -> Landing:
        del parcel
        return Landing.ABSENT

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        del query
        return ()

    async def healthy(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is open."""


def make(setup: ProviderSetup) -> Configured:
    BenchProvider.made = BenchProvider(setup.name)
    return Configured(BenchProvider.made, PerSession())


def offer(data: Path) -> None:
    """Install a distribution beside the data folder, for this process. Its entry points are the providers."""
    folder = data.with_name(f"{data.name}-plugin")
    told = folder / "bench_providers-1.0.dist-info"
    told.mkdir(parents=True, exist_ok=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-providers\nVersion: 1.0\n")
    lines = ["[holdfast.providers]", *(f"{kind} = bench.ours.providers:make" for kind in KINDS)]
    (told / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path.append(str(folder))


class Beside(Answers):
    """`ask`, while three providers get each turn and none of them keeps up."""

    def policy(self) -> holdfast.AgentPolicy:
        offer(self.folder)
        return holdfast.AgentPolicy(memory={kind: {} for kind in KINDS if kind != BATCHING})

    async def settle(self) -> None:
        """Nothing: the deliveries of a stalled provider never end."""


class Backlog(Holdfast):
    def policy(self) -> holdfast.AgentPolicy:
        offer(self.folder)
        return holdfast.AgentPolicy(memory=_only(BATCHING))

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        del messages

        async def record(name: str) -> None:
            for turn in range(self.task.option("turns") // len(names)):
                await self.record(name, f"t{turn}", SAID, "user")

        await in_parallel(record(name) for name in names)

    async def turn(self, name: str, n: int) -> None:
        """Nothing is answered here."""


def _only(kind: str) -> Mapping[str, Mapping[str, object]]:
    return {kind: {}}


async def settling(task: Task) -> dict[str, float]:
    """Queue turns for a provider that waits, then let it answer at once; it takes batches."""
    backlog = Backlog(task)
    await backlog.open()
    await backlog.prepare([f"s{number}" for number in range(task.load.conversations)], 0)
    queued = await backlog.runtime.backfill(BATCHING)
    provider, feed = BenchProvider.made, backlog.runtime.events()
    cpu, started = cpu_s(), time.perf_counter()
    provider.is_open.set()
    while provider.delivered < queued:
        await feed.next_within(LOOK_MS)
    await backlog.settle()
    wall, cpu = time.perf_counter() - started, cpu_s() - cpu
    feed.close()
    await backlog.close()
    return {"per_s": queued / wall, "cpu_ms": cpu / queued * 1_000}
