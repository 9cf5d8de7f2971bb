"""Agents of this runtime: the policy, models and tools of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from holdfast.inbox.address import agent_name
from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.ids import AgentName
from holdfast.turns.model import Connected, Model
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.tool import Tools

MAIN = AgentName("main")
BOUND_MAX = 1_024  # agents kept with their parts; without a configuration every name is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    policy: AgentPolicy
    model: Model
    summariser: Model
    tools: Tools


@dataclass(frozen=True, slots=True)
class Agents:
    """Without a configuration, every valid name is an agent; with one, only the listed names are (D38)."""

    default: Agent | None
    listed: Mapping[AgentName, Agent] = field(default_factory=dict)
    bind: Callable[[AgentName, Agent], Agent] | None = None  # wraps an agent with parts that need its name
    _bound: dict[str, Agent] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def first(self) -> AgentName:
        """The agent for a message that names none: `main` if it exists, otherwise the first configured agent."""
        if self.default is not None or MAIN in self.listed:
            return MAIN
        return next(iter(self.listed), MAIN)

    def get(self, name: str) -> Agent:
        known = self._bound.get(name)
        if known is not None:
            return known
        agent = self.listed.get(agent_name(name), self.default)
        if agent is None:
            raise AgentNotFound(f"there is no agent {name!r}; configured are {', '.join(sorted(self.listed))}")
        if len(self._bound) >= BOUND_MAX:
            self._bound.clear()
        self._bound[name] = self.bind(agent_name(name), agent) if self.bind else agent
        return self._bound[name]

    @property
    def connected(self) -> list[Connected]:
        """The models that have connections, each once."""
        kept = [agent for agent in (self.default, *self.listed.values()) if agent is not None]
        models = {id(model): model for agent in kept for model in (agent.model, agent.summariser)}
        return [model for model in models.values() if isinstance(model, Connected)]

    async def close(self) -> None:
        """Close the connections of all models."""
        for model in self.connected:
            await model.close()

    def policy(self, name: str) -> AgentPolicy:
        return self.get(name).policy
