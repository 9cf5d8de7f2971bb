"""Pauses: an operator lets an agent begin no more turns, and later go on."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.audit.actor import acting
from holdfast.inbox.address import agent_name
from holdfast.kernel import log
from holdfast.kernel.notifier import Topic
from holdfast.store.ports import Ports
from holdfast.turns.agent_pause import AgentPause, PauseChange
from holdfast.turns.agent_pause_sql import list_pauses, pause_agent, resume_agent
from holdfast.turns.agents import Agents


@dataclass(frozen=True, slots=True)
class Pauses:
    ports: Ports
    agents: Agents

    async def list(self) -> Sequence[AgentPause]:
        return await self.ports.db.read(list_pauses())

    async def pause(self, agent: str) -> PauseChange:
        """Raises `AgentNotFound` and `InvalidName`."""
        name = agent_name(agent)
        self.agents.get(name)
        change = await self.ports.db.write(pause_agent(name, by=acting()))
        if change.changed:
            log.info("agent.paused", agent=name, waiting=change.waiting, open_turns=change.open_turns)
        return change

    async def resume(self, agent: str) -> PauseChange:
        """An agent that is paused can be resumed also after it was removed. Raises as `pause` otherwise."""
        name = agent_name(agent)
        change = await self.ports.db.write(resume_agent(name, by=acting()))
        if not change.changed:
            self.agents.get(name)
            return change
        log.info("agent.resumed", agent=name, waiting=change.waiting)
        self.ports.notifier.wake(Topic.MAIL)
        return change
