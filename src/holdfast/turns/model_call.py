"""Model calls: a time limit, a bounded number of attempts, a usable answer or a clear failure, and what it cost.

Rule 1: a model is third-party code. Every exception, malformed answer or missing answer becomes its failure
        (`ModelFailed`). Only the store's own errors pass through, because a metered model writes spend rows.
Rule 2: a hopeless attempt is not made: a final failure ends the call at once, and so does a vendor's retry delay that
        exceeds the remaining time.
Rule 3: all model calls of a turn share one retry budget.
Rule 4: the cost of an answer is durable before the answer is used. Refusals and broken answers are billed too. An
        answer that Holdfast cuts off (/stop, an interrupting message, a timeout) is not counted, because the vendor
        does not report its cost.
Rule 5: an agent's daily limit is checked before a request. Concurrent requests may each pass the check, so a day can
        exceed its limit by their cost. Summaries and extractions count towards the limit and are blocked by it, as
        replies are; their own loops retry them.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace

from holdfast.inbox.component_states import ComponentStates
from holdfast.kernel import log
from holdfast.kernel.errors import ModelFailed, StoreBroken, StoreFull, StoreReadOnly, StoreUnavailable
from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.notifier import Event
from holdfast.kernel.ports import Clock, Entropy, Tasks
from holdfast.kernel.spans import MODEL, provider_and_model, span
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.journal import ToolCall, is_storable
from holdfast.turns.model import AnswerRestarted, Model, ModelAnswer, ModelEvent, ModelRequest, ModelTask, TextDelta
from holdfast.turns.policy import TurnPolicy
from holdfast.turns.spend_sql import Spend, day_start, record_spend, sum_spent, used_up
from holdfast.turns.turn import Usage

ANSWER_CHARS_MAX = 4_000_000
TOO_LONG = f"the model's answer has more than {ANSWER_CHARS_MAX} characters"
OF_REQUEST = frozenset({400, 413, 422})  # statuses that say something about the request
LIMIT = "daily_limit"  # in the context of a failure: Holdfast itself refused to ask
ASKED = "asked"  # in the context of a failure: the configured model that failed
TOKENS_MAX = 1 << 40  # a larger value is not a token count


@dataclass(slots=True)
class Patience:
    """The remaining retry budget: a number of retries and a total wait."""

    retries: int
    wait_ms: int

    @classmethod
    def of_turn(cls, policy: TurnPolicy) -> "Patience":
        return cls(policy.model_retries_max, policy.model_wait_ms)

    def take(self, error: ModelFailed, backoff_ms: int) -> int | None:
        """The delay before the next attempt; None if the budget allows none."""
        delay_ms = max(backoff_ms, error.retry_after_ms)
        if error.is_final or self.retries < 1 or delay_ms > self.wait_ms:
            return None
        self.retries -= 1
        self.wait_ms -= delay_ms
        return delay_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTry:
    """One request to a model: its answer, or why there is none."""

    started_at: Instant
    ended_at: Instant
    answer: ModelAnswer | None = None
    failed: ModelFailed | None = None


class ModelCaller:
    def __init__(self, clock: Clock, entropy: Entropy, tasks: Tasks) -> None:
        self._clock = clock
        self._entropy = entropy
        self._tasks = tasks

    async def ask(
        self,
        model: Model,
        request: ModelRequest,
        policy: TurnPolicy,
        heard: Callable[[str], None],
        restarted: Callable[[], None],
        *,
        patience: Patience | None = None,
        tried: Callable[[ModelTry], None] = lambda _one: None,
    ) -> ModelAnswer:
        """The model's answer. `heard` receives each delta; `restarted` reports that earlier deltas are void; `tried`
        receives each request that was not cancelled.
        """
        patience = patience or Patience.of_turn(policy)
        for attempt in range(1, policy.model_attempts_max + 1):
            began = self._clock.now()
            try:
                answer = await hear(model, request, policy.model_wait_ms, heard, restarted)
            except ModelFailed as error:
                tried(ModelTry(started_at=began, ended_at=self._clock.now(), failed=error))
                log.error(
                    "model.failed",
                    failure=error.__cause__,
                    task=request.task.value,
                    attempt=attempt,
                    why=str(error),
                    **error.vendor.fields,
                )
                if attempt == policy.model_attempts_max:
                    raise
                delay_ms = patience.take(error, policy.retry.delay_ms(attempt, self._entropy.fraction()))
                if delay_ms is None:
                    raise
            else:
                tried(ModelTry(started_at=began, ended_at=self._clock.now(), answer=answer))
                return answer
            restarted()
            await self._tasks.sleep(delay_ms)
        raise ModelFailed("the model may not be asked at all: model_attempts_max is 0")


async def hear(
    model: Model,
    request: ModelRequest,
    wait_ms: int,
    heard: Callable[[str], None] = lambda _text: None,
    restarted: Callable[[], None] = lambda: None,
) -> ModelAnswer:
    """One complete, usable answer. Raises `ModelFailed` for any other outcome."""
    provider, wanted = provider_and_model(model.name)
    with span(
        MODEL,
        wanted,
        gen_ai_provider_name=provider,
        gen_ai_request_model=wanted,
        holdfast_model_task=request.task.value,
    ) as seen:
        watched = model if isinstance(model, Metered) else None
        try:
            answer = await _hear(model, request, wait_ms, heard, restarted)
        except ModelFailed as error:
            if watched is not None:
                watched.failed(error)
            raise
        if watched is not None:
            watched.succeeded(answer)
        seen.note(
            gen_ai_response_model=provider_and_model(answer.model or model.name)[1],
            gen_ai_usage_input_tokens=answer.usage.tokens_in,
            gen_ai_usage_output_tokens=answer.usage.tokens_out,
        )
    return answer


async def _hear(
    model: Model, request: ModelRequest, wait_ms: int, heard: Callable[[str], None], restarted: Callable[[], None]
) -> ModelAnswer:
    answer: ModelAnswer | None = None
    try:
        async with asyncio.timeout(wait_ms / 1000) as patience:
            answer = await _heard_out(model, request, heard, restarted)
    except (ModelFailed, StoreUnavailable, StoreFull, StoreReadOnly, StoreBroken):
        raise
    except asyncio.CancelledError as error:
        if is_cancelled_from_outside():
            raise
        raise ModelFailed("the model cancelled its own work") from error
    except Exception as error:
        if patience.expired():
            raise ModelFailed(f"the model did not answer within {wait_ms} ms") from None
        raise ModelFailed(f"the model raised {type(error).__name__}") from error
    fault = _fault_of(answer)
    if answer is None or fault:
        raise ModelFailed(fault)
    return answer


async def _heard_out(
    model: Model, request: ModelRequest, heard: Callable[[str], None], restarted: Callable[[], None]
) -> ModelAnswer | None:
    """Read the model's stream to its end. An abandoned stream is closed here at once, with its connection."""
    answer: ModelAnswer | None = None
    length = 0
    async with listen(model, request) as stream:
        async for event in stream:
            if isinstance(event, AnswerRestarted):
                length = 0
                restarted()
            elif isinstance(event, ModelAnswer):
                answer = event
            elif isinstance(event, TextDelta) and is_storable(event.text):
                length += len(event.text)
                if length > ANSWER_CHARS_MAX:
                    raise ModelFailed(TOO_LONG)
                heard(event.text)
            else:
                raise ModelFailed("the model sent something that is neither text nor an answer")
    return answer


def listen(model: Model, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
    """The model's answer as a context, whose end closes the model's stream and its connection."""
    stream = model.ask(request)
    return aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext(stream)


def is_cancelled_from_outside() -> bool:
    """Whether the running task was cancelled, as opposed to an inner cancellation that leaked out."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _fault_of(answer: ModelAnswer | None) -> str:
    """The reason why an answer cannot be used; empty if it can."""
    if answer is None:
        return "the model's answer broke off"
    if not is_storable(answer.text) or not is_storable(answer.model):
        return "the model's answer is garbled"
    if not _are_calls(answer.calls) or not _is_counted(answer.usage):
        return "the model's answer is garbled"
    if len(answer.text) > ANSWER_CHARS_MAX:
        return TOO_LONG
    if not answer.text.strip() and not answer.calls:
        return "the model answered nothing"
    return ""


def _are_calls(calls: object) -> bool:
    """Whether the calls can be run. Ids identify calls, so an answer that repeats an id is rejected."""
    if not isinstance(calls, Sequence) or not all(isinstance(call, ToolCall) for call in calls):
        return False
    parts = [part for call in calls for part in (call.id, call.name, call.arguments)]
    ids = {call.id for call in calls}
    return all(is_storable(part) for part in parts) and "" not in ids and len(ids) == len(calls)


def _is_counted(usage: object) -> bool:
    return isinstance(usage, Usage) and all(
        isinstance(count, int) and 0 <= count <= TOKENS_MAX for count in (usage.tokens_in, usage.tokens_out)
    )


# --- spend


class Metered:
    """Implements `Model` around another model, for one agent: stores spend, refuses calls after the daily limit, and
    tells the states of models what each request showed.
    """

    def __init__(
        self, model: Model, agent: AgentName, ports: Ports, daily_micros: int | None, states: ComponentStates
    ) -> None:
        self._model = model
        self._agent = agent
        self._ports = ports
        self._daily_micros = daily_micros
        self._states = states

    @property
    def name(self) -> str:
        return self._model.name

    def succeeded(self, answer: ModelAnswer) -> None:
        name = answer.asked or self._model.name
        if self._ports.clock.now() >= self._states.well_until.get((self._agent, name), 0):
            self._states.succeeded(self._agent, name)

    def failed(self, error: ModelFailed) -> None:
        name = str(error.context.get(ASKED) or self._model.name)
        self._states.failed(self._agent, name, str(error), error.vendor, is_own=is_of_model(error))

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        await self._check()
        try:
            async with listen(self._model, request) as events:
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
            raise ModelFailed(used_up(self._daily_micros), final=True, elsewhere=False, **{LIMIT: True})

    async def _note(self, task: ModelTask, event: ModelEvent) -> None:
        if isinstance(event, ModelAnswer) and event.cost_micros is not None:
            await self._record(task, event.model or self.name, event.usage, event.cost_micros)
        if isinstance(event, AnswerRestarted) and event.failure is not None:
            self.failed(event.failure)
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
        fields = {"agent": spend.agent, "model": spend.model, "task": spend.task, "cost_micros": cost_micros}
        self._ports.notifier.publish(Event(name="model.paid", fields=fields))


def is_of_model(error: ModelFailed) -> bool:
    """Whether a failure says something about the model, and not about the request, which another model refuses too."""
    if error.context.get(LIMIT):
        return True
    return error.vendor.status not in OF_REQUEST and error.context.get("elsewhere", True) is not False


def metered(agents: Agents, ports: Ports, states: ComponentStates) -> Agents:
    """The agents with metered models, each under its own name."""

    def bind(name: AgentName, agent: Agent) -> Agent:
        limit = agent.policy.daily_spend_micros
        speaker = Metered(agent.model, name, ports, limit, states)
        is_one = agent.summariser is agent.model
        other = speaker if is_one else Metered(agent.summariser, name, ports, limit, states)
        return replace(agent, model=speaker, summariser=other)

    return replace(agents, bind=bind)
