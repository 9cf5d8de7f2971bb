"""Asking a model: within a time, a bounded number of times, with a usable answer or a clear failure."""

import asyncio
from collections.abc import Callable

from holdfast import log
from holdfast.core.errors import ModelFailed
from holdfast.core.policy import TurnPolicy
from holdfast.ports.entropy import Entropy
from holdfast.ports.model import Answer, Model, ModelRequest, TextDelta
from holdfast.ports.notifier import Notifier
from holdfast.ports.tasks import Tasks


class Asker:
    def __init__(self, notifier: Notifier, entropy: Entropy, tasks: Tasks) -> None:
        self._notifier = notifier
        self._entropy = entropy
        self._tasks = tasks

    async def ask(
        self,
        model: Model,
        request: ModelRequest,
        policy: TurnPolicy,
        heard: Callable[[str], None],
        restarted: Callable[[], None],
    ) -> Answer:
        """The model's answer. `heard` gets each delta; `restarted` says that what was heard is void."""
        for attempt in range(1, policy.model_attempts_max + 1):
            try:
                return await self._once(model, request, policy.model_wait_ms, heard)
            except ModelFailed as error:
                log.warning("model.failed", task=request.task.value, attempt=attempt, why=str(error))
                if attempt == policy.model_attempts_max:
                    raise
            restarted()
            await self._tasks.sleep(policy.retry.delay_ms(attempt, self._entropy.fraction()))
        raise ModelFailed("the model may not be asked at all: model_attempts_max is 0")

    async def _once(self, model: Model, request: ModelRequest, wait_ms: int, heard: Callable[[str], None]) -> Answer:
        answer: Answer | None = None
        try:
            async with asyncio.timeout(wait_ms / 1000):
                async for event in model.ask(request):
                    if isinstance(event, TextDelta):
                        heard(event.text)
                    else:
                        answer = event
        except TimeoutError as error:
            raise ModelFailed(f"the model did not answer within {wait_ms} ms") from error
        if answer is None:
            raise ModelFailed("the model's answer broke off")
        if not answer.text.strip() and not answer.calls:
            raise ModelFailed("the model answered nothing")
        return answer
