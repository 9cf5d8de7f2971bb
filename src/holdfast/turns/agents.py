"""Agents of this runtime: the policy, models and tools of each, and the tools that agents have in common.

A turn that another agent's message opened has the tools that every agent of the message's chain has too.
Rule 1: agents share a tool if it is the same function, the same built-in tool, or the same tool of an MCP server with
        the same settings (`Traceable` in turns/tool.py). An equal name is not enough.
Rule 2: a tool that is not offered cannot be run; the current configuration and servers decide both.
Rule 3: if one agent of the chain needs an approval for a tool, all of them do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.inbox import agent_chain
from holdfast.inbox.address import agent_name
from holdfast.inbox.agent_chain import SEND_MESSAGE, Chain, described
from holdfast.kernel.errors import AgentNotFound, InvalidName
from holdfast.kernel.ids import AgentName
from holdfast.turns.approval import needs_approval
from holdfast.turns.model import Connected, Model, ToolSpec
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.tool import ToolContext, ToolOutcome, Tools, Unreliable, built_in, no_such_tool, origin_of

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
    _retired: list[Connected] = field(default_factory=list, init=False, repr=False, compare=False)

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

    def take_over(self, other: "Agents") -> None:
        """Answer with the agents of `other` from now on. A turn that runs keeps the agent that it began with.

        Such a turn may still use a model that no agent has any more, so its connections are closed by `close`.
        """
        self._retired.extend(model for model in self.connected if model not in other.connected)
        for name in ("default", "listed", "bind"):
            object.__setattr__(self, name, getattr(other, name))
        self._bound.clear()

    async def close(self) -> None:
        """Close the connections of all models."""
        for model in (*self.connected, *self._retired):
            await model.close()

    def policy(self, name: str) -> AgentPolicy:
        return self.get(name).policy


# --- the tools of a chain of agents


def acting(agents: Agents, name: AgentName, chain: Chain) -> Agent:
    """The agent, restricted to the tools of a turn whose messages passed the agents of `chain`."""
    agent = agents.get(name)
    others = {other: _found(agents, other) for other in chain if other != name}
    if not others:
        return agent
    return replace(agent, tools=ChainedTools(agent.tools, others, may_message(agents, name, chain)))


def may_message(agents: Agents, name: AgentName, chain: Chain) -> tuple[AgentName, ...]:
    """The agents that an agent may message in a turn with this chain."""
    return agent_chain.reachable(name, chain, lambda one: _talks_to(agents, one))


def _talks_to(agents: Agents, name: AgentName) -> tuple[str, ...] | None:
    found = _found(agents, name)
    return found.policy.talks_to if found is not None else None


def _found(agents: Agents, name: AgentName) -> Agent | None:
    try:
        return agents.get(name)
    except (AgentNotFound, InvalidName):
        return None


class ChainedTools:
    """Implements `Tools` and `Unreliable`."""

    def __init__(self, own: Tools, others: Mapping[AgentName, Agent | None], reach: tuple[AgentName, ...]) -> None:
        """`others` are the agents of the chain; None stands for an unconfigured agent, which has no tools.

        `reach` is the set of agents that the turn may message.
        """
        self._own = own
        self._others = others
        self._reach = reach

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        return tuple(self._told(agent, spec) for spec in self._own.specs(agent) if self._is_common(agent, spec.name))

    def is_idempotent(self, name: str) -> bool:
        return self._own.is_idempotent(name)

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        if not self._is_common(agent, name):
            return False
        return self._own.needs_approval(agent, name) or any(
            needs_approval(one.policy.approval, name, dangerous=one.tools.needs_approval(other, name))
            for other, one in self._others.items()
            if one is not None
        )

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        if not self._is_common(context.agent, name):
            return self._missing(context.agent, name)
        outcome = await self._own.call(name, arguments, context)
        return self._missing(context.agent, name) if outcome.missing else outcome

    def _missing(self, agent: AgentName, name: str) -> ToolOutcome:
        return no_such_tool(name, self.specs(agent), self.outages())

    def outages(self) -> tuple[str, ...]:
        return self._own.outages() if isinstance(self._own, Unreliable) else ()

    def _is_common(self, agent: AgentName, name: str) -> bool:
        origin = origin_of(self._own, agent, name)
        if origin is None or (origin == built_in(SEND_MESSAGE) and not self._reach):
            return False
        return all(
            one is not None and origin_of(one.tools, other, name) == origin for other, one in self._others.items()
        )

    def _told(self, agent: AgentName, spec: ToolSpec) -> ToolSpec:
        is_sending = origin_of(self._own, agent, spec.name) == built_in(SEND_MESSAGE)
        return replace(spec, description=described(self._reach)) if is_sending else spec
