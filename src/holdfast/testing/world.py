"""The world of one history: nodes on one database file, people, a model, and faults.

A node is the real runtime, assembled as a process assembles it, over simulated ports: the loop's clock, seeded
randomness, tasks that can be killed. Each node has its own connection to the same SQLite file. Every port that a node
uses is wrapped, so it can die before and after each verb and before each statement of a transaction.

After the faults the world heals: paused nodes continue, dead ones start again, and all accepted work has to end within
`REST_S` virtual seconds.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import apsw

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.notifier import Notifier
from holdfast.memory.lane import LaneClaim, LaneKey
from holdfast.memory.provider import Capabilities, Configured, Providers
from holdfast.runtime.assembly import assemble
from holdfast.runtime.runtime import Runtime
from holdfast.store.ports import Ports
from holdfast.store.sqlite.connection import close_untouched, open_connection
from holdfast.store.upkeep_sql import load_secret
from holdfast.testing.areas import FINISH, PRUNE, Area, configured, cost_micros, late_provider, without
from holdfast.testing.armed import Armed
from holdfast.testing.channel_areas import ChannelArea, channel_areas_of
from holdfast.testing.chats import CHATS_EVERY, SEND_POLICY, Chats
from holdfast.testing.clock import SimClock
from holdfast.testing.company import Company
from holdfast.testing.crash import CrashingDatabase, crashing
from holdfast.testing.entropy import SeededEntropy
from holdfast.testing.errands import errands, resume_agents, speak_again
from holdfast.testing.evidence import Backfilled, HistoryTally
from holdfast.testing.faults import FaultPlan, Kill, Pause, Stop
from holdfast.testing.inline_database import InlineDatabase
from holdfast.testing.models import FakeModel, FakeTools, ModelMemory
from holdfast.testing.node import SimNode
from holdfast.testing.people import People
from holdfast.testing.platform import Platform
from holdfast.testing.providers import ABLE, DISPATCH_POLICY, IDEMPOTENT, FakeProvider, IndexedProvider
from holdfast.testing.rows import LANDED, UNEXPIRED, UNPOSTED, UNPRUNED, parked, unfinished
from holdfast.testing.scope import LEASE_MS, NODES
from holdfast.testing.servers import Server
from holdfast.testing.simloop import SimLoop
from holdfast.testing.strangers import strangers_say
from holdfast.testing.strangers_agent import AGENT, LocalServer, Look, equipped, look_around, strangers_policies
from holdfast.testing.tasks import SimTasks
from holdfast.testing.trouble import Slot, Trouble
from holdfast.testing.watched import NodeDatabase
from holdfast.testing.workload import Say, meddling, policies, say
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import AgentPolicy

STEPS_MAX = 30_000
TURNS_MAX = 3  # turns at a time per node: fewer than there are chats
ROUGH_S = 15.0  # how long faults may still happen after the last message
REST_S = 120.0  # all work ends within this time after healing
LOOK_S = 0.5
IDLE_LOOKS = 2
BOOT_AGAIN_MS = 500
REPLAYED_EVERY = 2  # an operator replays parked deliveries in one history of so many
MIXED_VERSIONS_EVERY = 4  # the nodes have different versions in one history of so many
DATABASE = "history.db"
VFS = apsw.vfs_names()[0]  # the default one by name, without the checks of the runtime's own: the folder is private
DULL_TOLD_MAX = 2  # of each such statement, in a given workload


class World(Trouble):
    quotes = False  # whether providers recall delivered words
    chats_every = CHATS_EVERY
    has_channel_areas = True
    gossips = False  # whether the model repeats the texts that it is shown, to every user

    def __init__(
        self,
        seed: int,
        plan: FaultPlan,
        folder: Path,
        *,
        nodes: int = NODES,
        says: Sequence[Say] | None = None,
        told: Callable[[str], None] | None = None,
        areas: frozenset[Area] = frozenset(),
    ) -> None:
        self.seed = seed
        self.areas = areas
        self.plan = plan
        self.path = folder / DATABASE
        self.loop = SimLoop(f"{seed}/loop", steps_max=STEPS_MAX)
        self.armed = Armed(plan)
        self.memory = ModelMemory()
        self.tally = HistoryTally()
        self.claims: list[Claim] = []
        self.lane_claims: list[LaneClaim] = []
        self.surprises: list[str] = []
        self.stranded: str | None = None  # the work that was unfinished after `REST_S`
        self.rested_at = 0.0
        self.looks: list[Look] = []  # queries of strangers at rest
        self.counts: Counter[str] = Counter()  # of events that only some histories have
        self.says = self._workload() if says is None else list(says)
        self._dull: Counter[str] = Counter()
        self._dull_max = 0 if says is None else DULL_TOLD_MAX
        self.platform = Platform(seed, self.armed, self.live)
        self._people = People(seed, self.platform, self.observer)
        self.chats = Chats(seed, self._is_healed, every=self.chats_every)
        beside = self.beside(seed) if says is None or not self.has_channel_areas else frozenset[ChannelArea]()
        self.company = Company(seed, beside, self.chats, self._is_healed, self.observer)
        made = self.company.policies(configured(seed, areas, policies(seed)))
        self._configured = strangers_policies(seed, made) if Area.STRANGERS in areas else made
        late = late_provider(seed, areas, self._configured)
        self.backfilled = None if late is None else Backfilled(late)
        self.policies = without(self._configured, late)
        self._clock = SimClock(self.loop)
        self._agents = self._make_agents()
        self._outside = Context()
        self._last_verb = ""
        self._observer: apsw.Connection | None = None
        self._spares: list[apsw.Connection] = []  # of dead nodes
        self._told = told
        self.slots = [Slot() for _ in range(nodes)]

    def _workload(self) -> list[Say]:
        said = [say(self.seed, message.n) for message in self.plan.messages]
        strangers = strangers_say(self.seed) if Area.STRANGERS in self.areas else []
        return [*said, *(meddling(self.seed) if said else []), *strangers]

    def beside(self, seed: int) -> frozenset[ChannelArea]:
        """The channel areas of the history."""
        return channel_areas_of(seed, chats=self.chats.enabled)

    # --- one history

    async def live_through(self) -> None:
        """Send all messages while faults happen; then heal the world and wait for rest."""
        for number in range(len(self.slots)):
            self._start(number)
        outages: list[Kill | Pause | Stop] = [*self.plan.of(Kill), *self.plan.of(Pause), *self.plan.of(Stop)]
        for outage in outages:
            self.loop.at_step(outage.step, partial(self._strike, outage))
        people = self.loop.create_task(self._people.answer(), name="people")
        senders = [self.loop.create_task(self.platform.deliver(one), name=f"send {one.n}") for one in self.says]
        if self.says:
            purpose = "conversation" if self.seed % 3 else "review"
            deliveries = self.policies[AgentName("fern")].deliveries
            recording = self.platform.record("ghost-1", purpose=purpose, agent="fern", policies=deliveries)
            senders.append(self.loop.create_task(recording, name="recorder"))
            senders += [self.loop.create_task(errand, name="errand") for errand in errands(self)]
        for sender in [*senders, *self.company.begin(self.live, self.platform)]:
            await sender
        await self.live_roughly()
        self.heal()
        await resume_agents(self)
        await speak_again(self)
        self.stranded = await self.come_to_rest(REST_S)
        if self.stranded is None and self.seed % REPLAYED_EVERY == 0:
            await self.replay()
            self.stranded = await self.come_to_rest(REST_S)
        if self.stranded is None and Area.PRUNING in self.areas:
            await self.platform.deliver_again()
            self.stranded = await self.come_to_rest(REST_S)
        if self.stranded is None and Area.STRANGERS in self.areas:
            self.looks = await look_around(self)
            self.stranded = await self.come_to_rest(REST_S)
        people.cancel()
        self.company.end()
        self.rested_at = self.loop.time()

    async def live_roughly(self) -> None:
        """Wait while faults may still happen, after the last message."""
        await self.come_to_rest(ROUGH_S)

    async def replay(self) -> None:
        await self.platform.replay(parked(self.observer()))

    async def come_to_rest(self, within_s: float) -> str | None:
        """Wait until no work is left, and return what is left after `within_s`."""
        idle = 0  # idle checks in a row; a node that was just thawed may start work at the next step
        for _ in range(int(within_s / LOOK_S)):
            idle = idle + 1 if self.unfinished() is None else 0
            if idle == IDLE_LOOKS:
                return None
            await asyncio.sleep(LOOK_S)
        return self.unfinished()

    def unfinished(self) -> str | None:
        also = [
            *(UNPOSTED.format(channel) for channel in self.company.posted),
            *([UNPRUNED] if Area.PRUNING in self.areas else []),
            *([UNEXPIRED] if Area.EXPIRY in self.areas else []),
        ]
        found = unfinished(self.observer(), *also) or self._unfilled()
        return found or self.company.unfinished() or self._people.unfinished()

    def _unfilled(self) -> str | None:
        """A lost index with delivered parcels that is not rebuilt yet."""
        lost = [lane for lane, server in self.memory.servers.items() if server.lost]
        has_some = [lane for lane in lost if self.observer().execute(LANDED, (lane.agent, lane.provider)).fetchall()]
        return f"the index of {has_some[0]} is lost" if has_some else None

    def now_ms(self) -> int:
        return self._clock.now()

    def reconfigure(self) -> None:
        """Give the agents their final configuration. Every node restarts for it."""
        self.policies = self._configured
        self._agents = self._make_agents()
        self._note("reconfigured")
        for slot in self.slots:
            if slot.node is not None and slot.node.alive:
                slot.down_ms = BOOT_AGAIN_MS
                slot.node.kill()

    def observer(self) -> apsw.Connection:
        """A read-only connection for the world's own queries."""
        if self._observer is None:
            self._observer = open_connection(self.path, readonly=True, synchronous="off")
        return self._observer

    def _is_healed(self) -> bool:
        return self.armed.healed

    def heal(self) -> None:
        self.armed.heal()
        for server in self.memory.servers.values():
            server.heal()
        for number, slot in enumerate(self.slots):
            if slot.node is not None:
                slot.node.thaw()
            if slot.node is None or not slot.node.alive:
                self._start(number)

    def live(self) -> list[tuple[SimNode, Runtime]]:
        """The nodes that a platform could reach: up and serving, or paused without knowing it."""
        return [(slot.node, slot.runtime) for slot in self.slots if slot.node and slot.node.alive and slot.runtime]

    # --- nodes

    def _start(self, number: int) -> None:
        slot = self.slots[number]
        if slot.node is not None and slot.node.alive:
            return
        slot.incarnation += 1
        slot.runtime = None
        name = f"n{number}.{slot.incarnation}"
        node = slot.node = SimNode(self.loop, name)
        database = InlineDatabase(
            self.path,
            self._clock,
            before_statement=self._before_statement,
            on_crash=lambda _crash: node.kill(),
            synchronous="off",
            vfs=VFS,
            spares=self._spares,
        )
        node.on_death(database.crash)
        node.on_death(lambda: self._fell(number))
        node.start(self._boot(slot, node, database), name="boot")

    async def _boot(self, slot: Slot, node: SimNode, database: InlineDatabase) -> None:
        entropy, tasks = SeededEntropy(f"{self.seed}/{node.name}"), SimTasks(self.loop, node)
        secret = await database.write(load_secret("tombstone", entropy.bits(256).to_bytes(32, "big")))
        watched = NodeDatabase(database, self.claims, self.lane_claims, self._looked)
        ports = Ports(
            db=CrashingDatabase(watched, self._reach),
            secret=secret,
            clock=self._clock,
            entropy=entropy,
            tasks=tasks,
            notifier=Notifier(),
        )
        providers = Providers(partial(self._make_providers, node.name, self.policies))
        agents, notes = self._agents, None
        if Area.STRANGERS in self.areas:
            agents, notes = equipped(agents, ports, providers)
        runtime = assemble(
            ports,
            agents,
            sole=False,
            lease_ms=LEASE_MS,
            turns_max=TURNS_MAX,
            providers=providers,
            notes=notes,
            dispatch_policy=DISPATCH_POLICY,
            finish_policy=FINISH,
            channels=self.company.channels(self._reach, node=node.name, clock=self._clock, tasks=tasks),
            send_policy=SEND_POLICY,
            prune_policy=PRUNE if Area.PRUNING in self.areas else None,
            receive=self.company.receives,
        )
        try:
            await runtime.start()
        except HoldfastError:  # a process that cannot start exits, and is started again
            slot.down_ms = BOOT_AGAIN_MS
            node.kill()
            return
        slot.runtime = runtime

    def _make_agents(self) -> Agents:
        cost = partial(cost_micros, self.seed) if Area.SPENDING in self.areas else None
        unhurried = ChannelArea.DRAFTS in self.company.areas
        model = FakeModel(
            self.seed,
            self.memory,
            self._clock.now,
            self.armed.at_model_call,
            cost,
            unhurried=unhurried,
            notes_words=Area.STRANGERS in self.areas,
            gossips=self.gossips,
        )
        tools = cast("Any", crashing(self.company.tools(FakeTools(self.seed, self.memory)), self._reach))
        guarded = crashing(model, self._reach)
        return Agents(
            None,
            {
                name: Agent(policy=policy, model=guarded, summariser=guarded, tools=tools)
                for name, policy in self.policies.items()
            },
        )

    def _looked(self) -> None:
        self.memory.looked_at[asyncio.current_task()] = self._clock.now()

    def _make_providers(
        self, node: str, policies: Mapping[AgentName, AgentPolicy], agent: AgentName
    ) -> dict[ProviderName, Configured]:
        """This node's clients of the agent's providers. While versions differ between nodes, so does the rendering."""
        made = {}
        for policy in policies[agent].deliveries:
            lane, able = LaneKey(agent, policy.provider), self.able(policy.provider)
            server = self.memory.servers.get(lane) or self._make_server(lane)
            version = node[:2] if self.seed % MIXED_VERSIONS_EVERY == 0 else "1"
            is_indexed = Area.REBUILD in self.areas and policy.provider in IDEMPOTENT
            provider = (IndexedProvider if is_indexed else FakeProvider)(
                lane,
                server,
                self.memory.lookups,
                seed=self.seed,
                capabilities=replace(able, renderer=f"{able.renderer}/{version}"),
                fault=self.armed.at_provider_call,
                quotes=self.quotes and not isinstance(server, LocalServer),
            )
            made[policy.provider] = Configured(crashing(provider, self._reach), policy.naming, policy.every_turns)
        return made

    def _make_server(self, lane: LaneKey) -> Server:
        idempotent = lane.provider in IDEMPOTENT
        is_shared = Area.STRANGERS in self.areas and lane.agent == AGENT
        made = LocalServer(idempotent, self._clock.now) if is_shared else Server(idempotent)
        return self.memory.servers.setdefault(lane, made)

    def able(self, provider: str) -> Capabilities:
        return ABLE[provider]

    def _fell(self, number: int) -> None:
        slot = self.slots[number]
        if slot.restarts:
            self.loop.call_later(slot.down_ms / 1000, self._start, number, context=self._outside)

    def stop(self) -> None:
        """Kill every node for good."""
        for slot in self.slots:
            slot.restarts = False
            if slot.node is not None:
                slot.node.kill()

    def revive(self, number: int) -> None:
        """Start one node again after `stop`."""
        self.slots[number].restarts = True
        self._start(number)

    def close(self) -> None:
        self.stop()
        for spare in self._spares:
            close_untouched(spare)
        if self._observer is not None:
            self._observer.close(True)
        self.loop.close()
