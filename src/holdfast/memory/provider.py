"""The provider port: a memory service that turns are delivered to and memories are recalled from.

A third party implements this, shows it with `holdfast.testing.check_provider`, and offers a factory under the entry
point group `holdfast.providers`; the name of the entry point is the name of its table in holdfast.toml.

What a provider promises:
1. `deliver` is called by one courier at a time per place, in order. Each parcel's id is its idempotency key: a parcel
   that is delivered twice has the effect of one, or the provider says `Uncertain` wherever it cannot know.
2. It answers with values; a foreign exception is translated inside the provider. An exception is a bug.
3. It sends nothing again by itself (no client-side retries): retrying is the courier's.
4. It keeps nothing in RAM that may not vanish at any instant.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.tasks import Tasks
from holdfast.memory.delivery import DeliveryPolicy, Landing, Outcome, Parcel
from holdfast.memory.naming import Naming
from holdfast.memory.recall import RecallQuery, Recollection

GROUP = "holdfast.providers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    renderer: str  # name and version of how it renders parcels; a change makes pending attempts uncertain (D19)
    turns: bool = True  # takes the turns of conversations
    memory: bool = True  # takes operations on the agent's memory
    recalls: bool = True
    prefetches: bool = False  # worth asking ahead of the next turn, because an answer takes long
    retracts: bool = False
    erases: bool = True
    lanes_per_call: int = 1  # how many lanes may share one call of `deliver`
    units_per_lane: int = 1  # how many units of one lane may share it
    calls_max: int = 16  # calls at the same time
    quiet_ms: int = 30_000  # a request that timed out may still take effect for so long (D20)
    repeats: bool = False  # a parcel that arrives twice has the effect of one: absent, it is sent again without waiting
    delivered_means: str = "the provider acknowledged it"  # what people are told `delivered` says, and what it does not
    notes_pass: bool = False  # notes without a text in common may arrive in any order (memory/note_order.py)


class Provider(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        """Carry parcels in their order; one outcome each, in the same order.

        Within one place nothing after a parcel that was not delivered may be sent: those get the outcome
        `Unreachable`, as nothing of them landed. Notes that may pass (`notes_pass`) may be sent after an uncertain one.
        """
        ...

    async def landed(self, parcel: Parcel) -> Landing:
        """Whether an earlier attempt of this very parcel took effect. Raises nothing; not knowing is `POSSIBLE`."""
        ...

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        """Best first. Raises `ProviderFailed`; the turn goes on without."""
        ...

    async def healthy(self) -> str | None:
        """None when it would take a parcel now, or a sentence that says why not."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Inspectable(Protocol):
    """A provider whose `healthy` may write. `holdfast config check --connect` asks this instead."""

    async def inspect(self) -> str | None:
        """None when it can be reached and takes our key, or a sentence that says why not. Writes nothing there."""
        ...


@runtime_checkable
class Indexed(Protocol):
    """A provider with an index of its own, which can be lost and filled again from the journal."""

    @property
    def needs_rebuild(self) -> bool:
        """Whether the index was found damaged or gone; until it is filled again recall knows only what came since."""
        ...

    async def rebuild(self, parcels: AsyncIterator[Parcel]) -> int:
        """Fill the index from these, in order; how many were taken. Deliveries are held back meanwhile."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSetup:
    """What a factory is given. `settings` is the provider's own table of holdfast.toml, unchecked."""

    name: ProviderName
    agent: AgentName
    settings: Mapping[str, object]
    folder: Path  # private to this provider and agent, made when first needed
    environment: Mapping[str, str]  # where `api_key_env` is looked up
    clock: Clock
    entropy: Entropy
    tasks: Tasks
    key: bytes | None = field(default=None, repr=False)  # what a provider keeps in its folder is encrypted with it


@dataclass(frozen=True, slots=True)
class Configured:
    """A provider and how it wants to be scheduled."""

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


# Raises `ConfigInvalid` for settings that cannot be right; does no I/O that needs the network.
Factory: TypeAlias = Callable[[ProviderSetup], Configured]
