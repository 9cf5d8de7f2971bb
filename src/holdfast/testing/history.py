"""One history: from a seed to a verdict.

seed -> workload and fault plan -> faults -> healing -> rest -> checks. The verdict contains the digest of every random
choice and of the final database: the same seed gives the same digest (I18).
"""

import asyncio
import logging
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from holdfast.store.sqlite.opening import open_ready
from holdfast.testing.areas import Area, areas_of
from holdfast.testing.attachment_pruning import pruned
from holdfast.testing.channel_areas import ChannelArea, channel_area_faults, channel_areas_of
from holdfast.testing.chats import has_chats
from holdfast.testing.checks_sessions import EXPIRY
from holdfast.testing.crash import CrashPoint
from holdfast.testing.evidence import Evidence
from holdfast.testing.faults import CrashAtVerb, FaultPlan, PauseAtVerb, ProviderFault, VerbFails, draw
from holdfast.testing.invariants import judge
from holdfast.testing.listening import Surprises, Telling
from holdfast.testing.loop_faults import draw_at_loops
from holdfast.testing.report import Violation
from holdfast.testing.retrying_client import RetryingClient
from holdfast.testing.rows import KEEP_PRUNED, Rows, read_rows, read_tables
from holdfast.testing.scope import LEASE_MS, NODES, scope
from holdfast.testing.simloop import Deadlock, StepLimitReached
from holdfast.testing.workload import Say
from holdfast.testing.world import DATABASE, VFS, World

AT_VERBS = (CrashAtVerb, PauseAtVerb, VerbFails)
RECOVERY_S = 4.5  # longer than a lease and a poll
MORE = ("attachment", "draft", "enclosure", "identity", "inbound", "watermark")  # tables that only some histories fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one history."""

    seed: int
    violations: tuple[Violation, ...]
    digest: str
    steps: int
    virtual_s: float
    kills: int
    pauses: int
    stops: int
    crashes: Counter[str] = field(default_factory=Counter)
    passed: Counter[CrashPoint | str] = field(default_factory=Counter)  # how often each fault point was passed
    struck: Counter[CrashPoint] = field(default_factory=Counter)  # where calls failed, or nodes were killed or paused
    counts: Counter[str] = field(default_factory=Counter)  # messages, turns, summaries and the like

    def with_violation(self, violation: Violation) -> "Verdict":
        return replace(self, violations=(*self.violations, violation))


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for databases. Without syncs a disk is as fast as memory."""
    with tempfile.TemporaryDirectory(prefix="holdfast-sim-") as folder:
        yield Path(folder)


def plan_of(seed: int) -> FaultPlan:
    """The faults and messages of a seed, with faults at the verbs of its loops and of its areas."""
    chats = has_chats(seed)
    plan = draw(seed, scope(nodes_of(seed), chats=chats))
    more = draw_at_loops(seed, areas_of(seed), chats=chats)
    more += channel_area_faults(seed, channel_areas_of(seed, chats=chats), lease_ms=LEASE_MS)
    return replace(plan, faults=tuple(dict.fromkeys([*plan.faults, *more])))


def shortened(plan: FaultPlan, messages: int) -> FaultPlan:
    """The plan with the same faults and only the first messages."""
    return replace(plan, messages=plan.messages[:messages])


def nodes_of(seed: int) -> int:
    return NODES + (1 if seed % 5 == 0 else 0)


def run_history(
    seed: int,
    *,
    folder: Path,
    plan: FaultPlan | None = None,
    says: Sequence[Say] | None = None,
    told: Callable[[str], None] | None = None,
) -> Verdict:
    """Run the history of a seed, or another plan with the randomness of that seed.

    `says` replaces the workload of the seed; then the first statements of polling loops count as crash points too.
    `told` is called with each event, as a line of text.
    """
    areas = areas_of(seed) if says is None else frozenset()
    if Area.FORGETTING in areas:
        from holdfast.testing.forgetting import run_forgetting  # noqa: PLC0415 - it is made of this module

        return run_forgetting(seed, folder=folder, plan=plan, told=told)
    start_afresh(folder)
    chosen = plan_of(seed) if plan is None else plan
    world = World(seed, chosen, folder, nodes=nodes_of(seed), says=says, told=told, areas=areas)
    return verdict_of(world, lambda rows: judge(evidence_of(world, rows)), told)


def verdict_of(
    world: World, judged: Callable[[Rows], Sequence[Violation]], told: Callable[[str], None] | None = None
) -> Verdict:
    """Run the history of a world, and close it. `judged` is called if a second recovery changes nothing."""
    try:
        with _noticing(world, told):
            return _verdict(world, _lived(world), judged)
    finally:
        world.close()


def _lived(world: World) -> list[Violation]:
    """Run the history, and return the violation that ended it, if any.

    An error that reached a simulated client is a finding like any other: the campaign goes on and names the seed.
    """
    try:
        world.loop.run_until_complete(world.live_through())
    except (Deadlock, StepLimitReached) as error:
        return [Violation("I15", f"{type(error).__name__}: {error}")]
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
        return [Violation("surprise", f"the history ended with {error!r} in {_innermost(error)}")]
    return []


def _innermost(error: BaseException) -> str:
    """The place at which an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else "?"


def _verdict(world: World, violations: list[Violation], judged: Callable[[Rows], Sequence[Violation]]) -> Verdict:
    rows = read_rows(world.observer())
    kept = rows.digest()
    digest = f"{world.loop.digest()}{kept}"
    if not violations:
        violations += [*_recovered_again(world, rows, kept), *judged(rows), *_pruned(world)]
    violations += [Violation("surprise", what) for what in dict.fromkeys(world.surprises)]
    violations += [Violation("surprise", f"{e.where}: {e.error!r}") for e in world.loop.escaped]
    return Verdict(
        seed=world.seed,
        violations=tuple(violations),
        digest=digest,
        steps=world.loop.steps,
        virtual_s=world.rested_at,
        kills=world.tally.kills,
        pauses=world.tally.pauses,
        stops=world.tally.stops,
        crashes=world.tally.crashes,
        passed=world.armed.seen,
        struck=Counter(fault.point for fault in world.armed.fired if isinstance(fault, AT_VERBS)),
        counts=_counts(world, rows),
    )


def _counts(world: World, rows: Rows) -> Counter[str]:
    tables = ("inbound", "turn", "session", "summary", "delivery", "finalisation")
    counts = Counter({table: len(rows[table]) for table in tables})
    counts["provider_fault"] = sum(isinstance(fault, ProviderFault) for fault in world.armed.fired)
    counts["provider_call"] = world.armed.before_healing["provider"]
    counts.update(f"approval {row['decision']}" for row in rows["approval"])
    counts["expired"] = sum(row["cause"] in EXPIRY for row in rows["finalisation"])
    counts["pruned"] = len(rows["tombstone"])
    counts["spend"] = len(rows["spend"])
    counts["post"] = len(world.chats.server.calls)
    counts["effect"] = sum(len(server.effects) for server in world.memory.servers.values())
    return counts + world.counts


def _recovered_again(world: World, rows: Rows, kept: str) -> list[Violation]:
    """I13: a process that starts after recovery finds nothing to do and changes nothing."""
    world.stop()
    world.revive(0)
    try:
        world.loop.run_until_complete(asyncio.sleep(RECOVERY_S))
    except (Deadlock, StepLimitReached) as error:
        return [Violation("I13", f"{type(error).__name__}: {error}")]
    after = read_rows(world.observer())
    if after.digest() == kept:
        return []
    changed = [table for table in rows.tables if rows[table] != after[table]]
    return [Violation("I13", f"a recovery after the recovery changed {', '.join(changed)}")]


def _pruned(world: World) -> list[Violation]:
    """I28 again, after the recovered node pruned old messages with attachments."""
    if ChannelArea.STREAM not in world.company.areas:
        return []
    client = RetryingClient(f"{world.seed}/area/rooms/prune", world.live)
    found = world.loop.run_until_complete(pruned(client, world.observer, world.loop.time()))
    return [Violation("I28", what) for what in found]


def evidence_of(world: World, rows: Rows) -> Evidence:
    more = read_tables(world.observer(), *MORE) if world.company.areas else {}
    streamed = world.company.stream.expected(rows["inbound"], more.get("watermark", []))
    for sent in streamed:  # a node that dies after its commit sends no acknowledgement
        sent.acked_at = world.rested_at if sent.acked_at is None else sent.acked_at
    return Evidence(
        rows=rows,
        sent=[*world.platform.sent.values(), *streamed],
        recorded=world.platform.recorded,
        asked=world.memory.asked,
        effects=world.memory.effects,
        arguments=world.memory.arguments,
        claims=world.claims,
        policies=world.policies,
        stranded=world.stranded,
        servers=world.memory.servers,
        lookups=world.memory.lookups,
        lane_claims=world.lane_claims,
        chats=world.chats,
        late=world.backfilled,
        company=world.company,
        more=more,
        ended_at=world.rested_at,
        looks=world.looks,
    )


@contextmanager
def _noticing(world: World, told: Callable[[str], None] | None) -> Iterator[None]:
    """Errors of loops are evidence; other log lines are produced only for `told`."""
    logger = logging.getLogger("holdfast")
    level, propagates = logger.level, logger.propagate
    handlers: list[logging.Handler] = [Surprises(world.surprises.append)]
    if told is not None:
        handlers.append(Telling(world.loop.time, told))
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(logging.ERROR if told is None else logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


def start_afresh(folder: Path) -> None:
    """Leave nothing in the folder but an empty database."""
    for file in folder.iterdir():
        file.unlink()
    (folder / DATABASE).write_bytes(_nothing_yet())


@cache
def _nothing_yet() -> bytes:
    """Created once: all migrations of the schema cost as much as a hundred steps of a history."""
    with scratch() as folder:
        db = open_ready(folder / DATABASE, vfs=VFS, synchronous="off")
        db.execute(KEEP_PRUNED)
        db.close()
        return (folder / DATABASE).read_bytes()
