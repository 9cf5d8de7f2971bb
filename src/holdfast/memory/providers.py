"""The providers of this runtime, created when an agent first needs them and closed with the runtime."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.retry import CircuitBreaker
from holdfast.memory.delivery import DeliveryPolicy, DeliveryState, DeliveryView
from holdfast.memory.lane import LaneKey
from holdfast.memory.notes import NotesPort
from holdfast.memory.provider import Configured, Provider

DONE = frozenset({DeliveryState.DELIVERED.value})
Make = Callable[[AgentName], Mapping[ProviderName, Configured]]


class Providers:
    def __init__(self, make: Make = lambda _agent: {}) -> None:
        self._make = make
        self._made: dict[AgentName, Mapping[ProviderName, Configured]] = {}
        self._notes: NotesPort | None = None
        # One per provider and agent, shared by all recalls of this process.
        self.recall_circuits: defaultdict[LaneKey, CircuitBreaker] = defaultdict(CircuitBreaker)

    def attach(self, notes: NotesPort) -> None:
        """Set the notes service for providers that read an agent's notes."""
        self._notes = notes

    def of(self, agent: AgentName) -> Mapping[ProviderName, Configured]:
        """The providers of an agent. Creating a provider uses no network."""
        if agent not in self._made:
            self._made[agent] = self._make(agent)
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
