"""Tools for a turn that another agent's message opened: the tools that every agent of the message's chain has too.

Rule 1: agents share a tool if it is the same function, the same built-in tool, or the same tool of an MCP server with
        the same settings (`Traceable` in turns/tool.py). An equal name is not enough.
Rule 2: a tool that is not offered cannot be run; the current configuration and servers decide both.
Rule 3: if one agent of the chain needs an approval for a tool, all of them do.
"""

from collections.abc import Mapping
from dataclasses import replace

from holdfast.inbox import agent_chain
from holdfast.inbox.agent_chain import SEND_MESSAGE, Chain, described
from holdfast.kernel.errors import AgentNotFound, InvalidName
from holdfast.kernel.ids import AgentName
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.approval import needs_approval
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import (
    ToolContext,
    ToolOutcome,
    Tools,
    built_in,
    no_such_tool,
    origin_of,
    outages_of,
)


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
            return no_such_tool(name, self.specs(context.agent))
        outcome = await self._own.call(name, arguments, context)
        return no_such_tool(name, self.specs(context.agent)) if outcome.missing else outcome

    def outages(self) -> tuple[str, ...]:
        return outages_of(self._own)

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
