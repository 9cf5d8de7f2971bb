"""The spend recorder: stores a row for every billed answer, and blocks model calls after an agent's daily limit.

Rule 1: the cost of an answer is durable before the answer is used. Refusals and broken answers are billed too. An
        answer that Holdfast cuts off (/stop, an interrupting message, a timeout) is not counted, because the vendor
        does not report its cost.
Rule 2: the limit is checked before a request. Concurrent requests may each pass the check, so a day can exceed its
        limit by their cost.
Rule 3: summaries and extractions count towards the limit and are blocked by it, as replies are; their own loops retry
        them.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.ids import AgentName
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.model import AnswerRestarted, Model, ModelAnswer, ModelEvent, ModelRequest, ModelTask, listen
from holdfast.turns.spend import Spend, day_start, used_up
from holdfast.turns.spend_sql import record_spend, sum_spent
from holdfast.turns.turn import Usage


class Metered:
    """Implements `Model` around another model, for one agent."""

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

    async def _note(self, task: ModelTask, event: ModelEvent) -> None:
        if isinstance(event, ModelAnswer) and event.cost_micros is not None:
            await self._record(task, event.model or self.name, event.usage, event.cost_micros)
        if isinstance(event, AnswerRestarted) and event.failure is not None:
            await self._record_failed(task, event.failure)

    async def _record_failed(self, task: ModelTask, error: ModelFailed) -> None:
        said = error.context
        usage, cost = said.get("usage"), said.get("cost_micros")
        if isinstance(usage, Usage) and isinstance(cost, int):
            await self._record(task, str(said.get("model") or self.name), usage, cost)

    async def _record(self, task: ModelTask, model: str, usage: Usage, cost_micros: int) -> None:
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
    """The agents with metered models, each under its own name."""

    def bind(name: AgentName, agent: Agent) -> Agent:
        limit = agent.policy.daily_spend_micros
        speaker = Metered(agent.model, name, ports, limit)
        is_one = agent.summariser is agent.model
        return replace(
            agent, model=speaker, summariser=speaker if is_one else Metered(agent.summariser, name, ports, limit)
        )

    return replace(agents, bind=bind)
