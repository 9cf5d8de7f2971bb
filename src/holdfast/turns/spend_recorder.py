"""Spending: every answer that is paid for is a row, and an agent whose day is used up is not asked for more.

Rule 1: what an answer cost is durable before the answer is used. Refusals and answers that broke off are paid for.
        One that we cut off ourselves (/stop, an interrupting message, the time for it) is not counted: nobody says
        what it cost.
Rule 2: the limit is looked at before asking. Questions that run at the same time may each pass it once, so a day can
        end above its limit by what they cost.
Rule 3: summaries and extractions count and wait as replies do; what they were for is tried again by its own loop.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.ids import AgentName
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.model import Answer, Model, ModelEvent, ModelRequest, Restarted, Task, listen
from holdfast.turns.spend import Spend, day_start, used_up
from holdfast.turns.spend_sql import record_spend, sum_spent
from holdfast.turns.turn import Usage


class Metered:
    """Implements `Model` around another one, for one agent."""

    def __init__(self, model: Model, agent: AgentName, ports: Ports, daily_micros: int | None) -> None:
        self._model = model
        self._agent = agent
        self._ports = ports
        self._daily_micros = daily_micros

    @property
    def name(self) -> str:
        return self._model.name

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        await self._check()
        try:
            async with aclosing(listen(self._model, request)) as events:
                async for event in events:
                    await self._note(request.task, event)
                    yield event
        except ModelFailed as error:
            await self._record_failed(request.task, error)
            raise

    async def _check(self) -> None:
        if self._daily_micros is None:
            return
        since = day_start(self._ports.clock.now())
        if await self._ports.db.read(sum_spent(self._agent, since)) >= self._daily_micros:
            raise ModelFailed(used_up(self._daily_micros), final=True, elsewhere=False)

    async def _note(self, task: Task, event: ModelEvent) -> None:
        if isinstance(event, Answer) and event.cost_micros is not None:
            await self._record(task, event.model or self.name, event.usage, event.cost_micros)
        if isinstance(event, Restarted) and event.failure is not None:
            await self._record_failed(task, event.failure)

    async def _record_failed(self, task: Task, error: ModelFailed) -> None:
        said = error.context
        usage, cost = said.get("usage"), said.get("cost_micros")
        if isinstance(usage, Usage) and isinstance(cost, int):
            await self._record(task, str(said.get("model") or self.name), usage, cost)

    async def _record(self, task: Task, model: str, usage: Usage, cost_micros: int) -> None:
        spend = Spend(
            id=self._ports.new_id("spd"),
            agent=self._agent,
            task=task.value,
            model=model,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            cost_micros=cost_micros,
        )
        await self._ports.db.write(record_spend(spend))


def metered(agents: Agents, ports: Ports) -> Agents:
    """The agents with their spending written down, each under its own name."""

    def bind(name: AgentName, agent: Agent) -> Agent:
        limit = agent.policy.daily_spend_micros
        speaker = Metered(agent.model, name, ports, limit)
        is_one = agent.summariser is agent.model
        return replace(
            agent, model=speaker, summariser=speaker if is_one else Metered(agent.summariser, name, ports, limit)
        )

    return replace(agents, bind=bind)
