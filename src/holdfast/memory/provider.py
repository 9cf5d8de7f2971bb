"""The provider port: a memory service that stores turns and notes, and recalls memories.

A third party implements `Provider`, verifies it with `holdfast.testing.check_provider`, and publishes a factory under
the entry point group `holdfast.providers`; the name of the entry point is the name of its table in holdfast.toml.

The contract of a provider:
1. One dispatcher at a time calls `deliver` per place, in order. A parcel's id is its idempotency key: delivering it
   twice has the effect of one delivery, or the outcome is `Uncertain` if the provider cannot know.
2. A provider returns outcomes, and translates foreign exceptions. An exception is a bug.
3. A provider never resends by itself (no client-side retries): the dispatcher owns retries.
4. A provider may lose its RAM at any instant without losing data.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.ports import Clock, Entropy, Tasks
from holdfast.kernel.retry import CircuitBreaker
from holdfast.memory.delivery import DeliveryPolicy, DeliveryState, DeliveryView, Landing, Naming, Outcome, Parcel
from holdfast.memory.lane import LaneKey
from holdfast.memory.notes import NotesPort
from holdfast.memory.recall import RecallQuery, Recollection

GROUP = "holdfast.providers"
DONE = frozenset({DeliveryState.DELIVERED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    renderer: str  # name and version of its rendering; a change makes pending attempts uncertain (D19)
    turns: bool = True  # accepts turns of conversations
    memory: bool = True  # accepts operations on the agent's notes
    recalls: bool = True
    prefetches: bool = False  # slow enough to be queried ahead of the next turn
    retracts: bool = False
    erases: bool = True
    lanes_per_call: int = 1  # lanes per call of `deliver`
    units_per_lane: int = 1  # units of one lane per call
    calls_max: int = 16  # concurrent calls
    gather_ms: int = 0  # the shortest time between two calls, unless one is full: under load, more units share a call
    quiet_ms: int = 30_000  # a request that timed out may still take effect for this long (D20)
    repeats: bool = False  # repeated parcels have the effect of one: an absent one is resent without waiting
    delivered_means: str = "the provider acknowledged it"  # the meaning of `delivered`, as shown to users
    notes_pass: bool = False  # notes without a common text may arrive in any order (memory/lane.py)


class Provider(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        """Deliver parcels in order; one outcome each, in the same order.

        Within one place no parcel may be sent after one that was not delivered: it gets the outcome `Unreachable`.
        Notes that may pass (`notes_pass`) may be sent after an uncertain one.
        """

    async def landed(self, parcel: Parcel) -> Landing:
        """Whether an earlier attempt of this parcel took effect; `POSSIBLE` if it is unknown. Never raises."""

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        """Memories, best first. Raises `ProviderFailed`; the turn continues without them."""

    async def healthy(self) -> str | None:
        """None if it would accept a parcel now, or a sentence that says why not."""

    async def close(self) -> None: ...


@runtime_checkable
class Inspectable(Protocol):
    """A provider whose `healthy` may write. `holdfast config check --connect` calls `inspect` instead."""

    async def inspect(self) -> str | None:
        """None if it can be reached and accepts the key, or a sentence that says why not. Writes nothing."""


@runtime_checkable
class Indexed(Protocol):
    """A provider with its own index, which can be rebuilt from the journal."""

    @property
    def needs_rebuild(self) -> bool:
        """Whether the index was damaged or missing; until the rebuild, recall finds only newer deliveries."""

    async def rebuild(self, parcels: AsyncIterator[Parcel]) -> int:
        """Fill the index from the parcels, in order; their number. Deliveries are refused meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSetup:
    """The argument of a factory. `settings` is the provider's own table of holdfast.toml, unchecked."""

    name: ProviderName
    agent: AgentName
    settings: Mapping[str, object]
    folder: Path  # private to this provider and agent, created on first use
    environment: Mapping[str, str]  # for `api_key_env`
    clock: Clock
    entropy: Entropy
    tasks: Tasks
    key: bytes | None = field(default=None, repr=False)  # encrypts the provider's own files


@dataclass(frozen=True, slots=True)
class Configured:
    """A provider with its naming and schedule."""

    provider: Provider
    naming: Naming
    every_turns: int = 1
    max_wait_ms: int | None = None

    def policy(self, name: ProviderName) -> DeliveryPolicy:
        able = self.provider.capabilities
        return DeliveryPolicy(
            provider=name,
            every_turns=self.every_turns,
            max_wait_ms=self.max_wait_ms,
            naming=self.naming,
            turns=able.turns,
            memory=able.memory,
        )


# Raises `ConfigInvalid` for invalid settings; uses no network.
Factory: TypeAlias = Callable[[ProviderSetup], Configured]


Make: TypeAlias = Callable[[AgentName], Mapping[ProviderName, Configured]]


class Providers:
    """The providers of this runtime, created when an agent first needs them and closed with the runtime."""

    def __init__(self, make: Make = lambda _agent: {}) -> None:
        self.make = make
        self._made: dict[AgentName, Mapping[ProviderName, Configured]] = {}
        self._notes: NotesPort | None = None
        # One per provider and agent, shared by all recalls of this process.
        self.recall_circuits: defaultdict[LaneKey, CircuitBreaker] = defaultdict(CircuitBreaker)

    def attach(self, notes: NotesPort) -> None:
        """Set the notes service for providers that read an agent's notes."""
        self._notes = notes

    def renew(self, make: Make) -> None:
        """Create the providers of agents that have none yet with `make`. Those that exist stay as they are."""
        self.make = make

    def of(self, agent: AgentName) -> Mapping[ProviderName, Configured]:
        """The providers of an agent. Creating a provider uses no network."""
        if agent not in self._made:
            self._made[agent] = self.make(agent)
            for configured in self._made[agent].values():
                attach = getattr(configured.provider, "attach", None)
                if attach is not None:
                    attach(self._notes)
        return self._made[agent]

    def lane_keys(self) -> tuple[LaneKey, ...]:
        """The keys of all providers created so far."""
        return tuple(LaneKey(agent, name) for agent, made in self._made.items() for name in made)

    def names(self, agent: AgentName) -> tuple[ProviderName, ...]:
        """The names of an agent's providers; none if the agent is not configured."""
        try:
            return tuple(self.of(agent))
        except AgentNotFound:
            return ()

    def get(self, key: LaneKey) -> Provider | None:
        """The provider; None if it or its agent is not configured: its deliveries wait."""
        try:
            configured = self.of(key.agent).get(key.provider)
        except AgentNotFound:
            return None
        return configured.provider if configured else None

    def policies(self, agent: AgentName) -> tuple[DeliveryPolicy, ...]:
        return tuple(configured.policy(name) for name, configured in self.of(agent).items())

    def explained(self, found: Sequence[DeliveryView]) -> list[DeliveryView]:
        """The deliveries with their provider's meaning of `delivered`, if the provider is still configured."""
        told = []
        for one in found:
            provider = self.get(LaneKey(AgentName(one.agent), ProviderName(one.provider)))
            means = provider.capabilities.delivered_means if provider and one.state in DONE else None
            told.append(replace(one, means=means))
        return told

    async def close(self) -> None:
        for made in self._made.values():
            for configured in made.values():
                await configured.provider.close()
        self._made.clear()
