"""Memory beside the turns: what slow, dead and blocked providers cost those who talk, and how fast a courier is.

The same turns are talked in alternating rounds, with no provider and with three that are all in the way, so that a
noisy minute hits both.
"""

import asyncio
import resource
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.accept import Instant
from holdfast.kernel.ids import Provider
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.kernel.notifier import Notifier
from holdfast.memory.delivery import Delivered, Landing, Outcome, Parcel, Unreachable
from holdfast.memory.naming import PerSession
from holdfast.memory.provider import Capabilities, Configured
from holdfast.memory.providers import Providers
from holdfast.memory.recall import RecallPolicy, RecallQuery, Recollection
from holdfast.runtime.app import make_agents
from holdfast.runtime.assembly import assemble
from holdfast.runtime.runtime import Runtime
from holdfast.store.ports import Ports
from holdfast.store.sqlite.writer import ThreadedDatabase
from holdfast.turns.policy import AgentPolicy

SESSIONS = 1_000
AT_ONCE = 64
ROUNDS = 5
ROUND_TURNS = 640
COURIER_TURNS = 3_000
DRIFT_ROUNDS, DRIFT_WARM = 48, 28


class BenchProvider:
    """Takes its time, never answers, or is not there."""

    def __init__(self, delay_s: float | None, *, dead: bool = False, lanes: int = 1, units: int = 1) -> None:
        self._delay_s = delay_s
        self._dead = dead
        self.delivered = 0
        self.capabilities = Capabilities(
            renderer="bench/1",
            recalls=False,
            memory=False,
            quiet_ms=0,
            lanes_per_call=lanes,
            units_per_lane=units,
            calls_max=64,
        )

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        if self._dead:
            return [Unreachable("connection refused") for _ in parcels]
        if self._delay_s is None:
            await asyncio.Event().wait()  # for ever
        elif self._delay_s:
            await asyncio.sleep(self._delay_s)
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


@asynccontextmanager
async def runtime_with(folder: Path, providers: dict[str, BenchProvider]) -> AsyncIterator[Runtime]:
    folder.mkdir()  # noqa: ASYNC240 - before anything is measured
    clock, entropy, tasks = SystemClock(), SystemEntropy(), AsyncTasks()
    db = ThreadedDatabase.open(folder / "holdfast.db", clock)
    made = {Provider(name): Configured(one, PerSession()) for name, one in providers.items()}
    deliveries = tuple(one.policy(name) for name, one in made.items())
    policy = AgentPolicy(deliveries=deliveries, recall=RecallPolicy(enabled=False))
    agents = make_agents(model=Instant(), policy=policy)
    ports = Ports(db=db, secret=b"0" * 32, clock=clock, entropy=entropy, tasks=tasks, notifier=Notifier())
    runtime = assemble(ports, agents, providers=Providers(lambda _agent: made))
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.close()


async def talk(runtime: Runtime, turns: int, label: str) -> list[float]:
    """Turns over all sessions, AT_ONCE at a time; the milliseconds that each took from message to reply."""
    took: list[float] = []

    async def one_of(worker: int) -> None:
        for number in range(worker, turns, AT_ONCE):
            started = time.perf_counter()
            await runtime.ask(f"chat{number % SESSIONS}", "a message of usual length, as people send them", id=label)
            took.append((time.perf_counter() - started) * 1000)

    # Within one round every chat is talked to at most once, so that nobody waits for a turn before.
    await asyncio.gather(*(one_of(worker) for worker in range(AT_ONCE)))
    return took


async def blocked(folder: Path, note: Callable[[str], None]) -> dict[str, object]:
    """The median turn beside providers that block for ever, over that without providers."""
    stuck = {"slow-a": BenchProvider(None), "slow-b": BenchProvider(None), "dead": BenchProvider(None, dead=True)}
    medians: dict[str, list[float]] = {"without": [], "blocked": []}
    async with runtime_with(folder / "without", {}) as free, runtime_with(folder / "blocked", stuck) as busy:
        for turn in range(ROUNDS + 1):
            note(f"turns beside blocked providers, round {turn} of {ROUNDS}")
            for name, runtime in (("without", free), ("blocked", busy)):
                took = await talk(runtime, ROUND_TURNS, f"{turn}")
                if turn:  # the first round warms both up
                    medians[name].append(statistics.median(took))
    without, beside = statistics.median(medians["without"]), statistics.median(medians["blocked"])
    return {
        "turn_ms": {"without": round(without, 2), "blocked": round(beside, 2)},
        "ratio": round(beside / without, 3),
    }


async def courier(folder: Path, note: Callable[[str], None]) -> dict[str, object]:
    """How fast a courier settles a backlog: in batches, and through two slow providers beside a dead one."""
    note(f"a backlog of {COURIER_TURNS} turns in {SESSIONS} sessions")
    batching = BenchProvider(0.0, lanes=64, units=64)
    slow = {"slow-a": BenchProvider(0.2, units=16), "slow-b": BenchProvider(0.2, units=16)}
    providers = {"batching": batching, **slow, "dead": BenchProvider(None, dead=True)}
    async with runtime_with(folder / "courier", providers) as runtime:
        began, cpu = time.perf_counter(), time.process_time()
        for turn in range(COURIER_TURNS // SESSIONS):
            await talk(runtime, SESSIONS, f"{turn}")
        feed = runtime.events()
        while any(one.delivered < COURIER_TURNS for one in (batching, *slow.values())):
            await feed.next_within(1_000)
        feed.close()
        wall, used = time.perf_counter() - began, time.process_time() - cpu
    return {"turns": COURIER_TURNS, "all_settled_s": round(wall, 2), "cpu_s": round(used, 2)}


async def settling(folder: Path, note: Callable[[str], None]) -> dict[str, object]:
    """The courier alone: a backlog made while it was blocked, then released."""
    gate = asyncio.Event()
    provider = BenchProvider(0.0, lanes=64, units=64)
    honest = provider.deliver

    async def gated(parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        await gate.wait()
        return await honest(parcels)

    provider.deliver = gated  # type: ignore[method-assign]
    async with runtime_with(folder / "settling", {"batching": provider}) as runtime:
        for turn in range(COURIER_TURNS // SESSIONS):
            await talk(runtime, SESSIONS, f"{turn}")
        note("releasing the backlog")
        began, cpu = time.perf_counter(), time.process_time()
        gate.set()
        feed = runtime.events()
        while provider.delivered < COURIER_TURNS:
            await feed.next_within(1_000)
        feed.close()
        wall, used = time.perf_counter() - began, time.process_time() - cpu
    return {
        "turns": COURIER_TURNS,
        "turns_per_s": round(COURIER_TURNS / wall),
        "turns_per_cpu_s": round(COURIER_TURNS / used),
    }


async def drift(folder: Path, note: Callable[[str], None]) -> dict[str, object]:
    """What the process grows by while slow and dead providers are in the way for many rounds.

    The caches of pages and contexts are bounded and fill during the first rounds, which are not counted.
    """
    providers = {
        "slow-a": BenchProvider(0.2, units=16),
        "slow-b": BenchProvider(0.2, units=16),
        "dead": BenchProvider(None, dead=True),
    }
    sizes: list[int] = []
    async with runtime_with(folder / "drift", providers) as runtime:
        for turn in range(DRIFT_ROUNDS):
            await talk(runtime, SESSIONS, f"{turn}")
            sizes.append(resident_kb())
            note(f"round {turn}: {sizes[-1] // 1024} MB")
    warm, end = statistics.median(sizes[DRIFT_WARM : DRIFT_WARM + 3]), statistics.median(sizes[-3:])
    return {"rss_mb": round(end / 1024, 1), "drift": round(end / warm - 1, 4)}


def resident_kb() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(lines["VmRSS"].split()[0])


async def measure_memory(folder: Path, note: Callable[[str], None]) -> dict[str, object]:
    return {
        "blocked": await blocked(folder, note),
        "settling": await settling(folder, note),
        "courier": await courier(folder, note),
        "drift": await drift(folder, note),
    }


def memory_goals(results: dict[str, dict[str, float]]) -> list[tuple[str, bool, str]]:
    ratio = results["blocked"]["ratio"]
    rate = results["settling"]["turns_per_cpu_s"]
    grown = results["drift"]["drift"]
    return [
        ("a turn beside providers that block for ever: within 1.25 x of none", ratio <= 1.25, f"{ratio} x"),
        ("a courier settles 500 turns per second of one core, in batches", rate >= 500, f"{rate} turns/s"),
        ("memory grows by less than 5 % beside slow and dead providers", grown < 0.05, f"{grown:.1%}"),
    ]
