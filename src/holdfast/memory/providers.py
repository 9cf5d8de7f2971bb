"""The providers of this runtime: made when an agent first needs them, closed with the runtime."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.circuit_breaker import Circuit
from holdfast.memory.delivery import DeliveryPolicy, DeliveryState, DeliveryView
from holdfast.memory.lane import LaneKey
from holdfast.memory.notes_port import MemoryKeeper
from holdfast.memory.provider import Configured, Provider

DONE = frozenset({DeliveryState.DELIVERED.value})
Make = Callable[[AgentName], Mapping[ProviderName, Configured]]


class Providers:
    def __init__(self, make: Make = lambda _agent: {}) -> None:
        self._make = make
        self._made: dict[AgentName, Mapping[ProviderName, Configured]] = {}
        self._keeper: MemoryKeeper | None = None
        self.recall_circuits: dict[LaneKey, Circuit] = {}  # shared by everything that recalls in this process

    def attach(self, keeper: MemoryKeeper) -> None:
        """Providers that show an agent's notes read them here."""
        self._keeper = keeper

    def of(self, agent: AgentName) -> Mapping[ProviderName, Configured]:
        """What the agent's memory consists of. Making a provider reaches nobody."""
        if agent not in self._made:
            self._made[agent] = self._make(agent)
            for configured in self._made[agent].values():
                attach = getattr(configured.provider, "attach", None)
                if attach is not None:
                    attach(self._keeper)
        return self._made[agent]

    def lane_keys(self) -> tuple[LaneKey, ...]:
        """Every provider of every agent that was needed so far."""
        return tuple(LaneKey(agent, name) for agent, made in self._made.items() for name in made)

    def get(self, key: LaneKey) -> Provider | None:
        """None for a provider that is not configured (any more), or whose agent is not: its deliveries wait."""
        try:
            configured = self.of(key.agent).get(key.provider)
        except AgentNotFound:
            return None
        return configured.provider if configured else None

    def policies(self, agent: AgentName) -> tuple[DeliveryPolicy, ...]:
        return tuple(configured.policy(name) for name, configured in self.of(agent).items())

    def explained(self, found: Sequence[DeliveryView]) -> list[DeliveryView]:
        """Each with what its provider means by `delivered`; as it was where the provider is not configured any more."""
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
