"""Several models in order: if one fails, the next one is asked.

Rule 1: the next model is asked after a failure that it might not have (`elsewhere`), and not after a refusal.
Rule 2: the text streamed by a failed model is void; an `AnswerRestarted` event tells the caller.
Rule 3: if all fail, the last failure is raised, final only if all were final. Its wait is the shortest that any of them
        asks for, because one model is enough.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from holdfast.kernel import log
from holdfast.kernel.errors import ModelFailed
from holdfast.turns.model import AnswerRestarted, Connected, Model, ModelEvent, ModelRequest, listen


class Fallback(Connected):
    """Implements `Model`, under the name of the first model."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)

    @property
    def models(self) -> tuple[Model, ...]:
        return self._models

    @property
    def name(self) -> str:
        return self._models[0].name

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        failures: list[ModelFailed] = []
        for model in self._models:
            if failures:
                yield AnswerRestarted(failures[-1])
            try:
                async with aclosing(listen(model, request)) as events:
                    async for event in events:
                        yield event
            except ModelFailed as error:
                failures.append(error)
                if not error.context.get("elsewhere", True):
                    raise
                if model is not self._models[-1]:
                    task, why = request.task.value, str(error)
                    log.warning("model.failed", task=task, model=model.name, why=why, **error.vendor.fields)
            else:
                return
        raise _combined(failures)

    async def load(self) -> None:
        for model in self._models:
            if isinstance(model, Connected):
                await model.load()

    async def close(self) -> None:
        for model in self._models:
            if isinstance(model, Connected):
                await model.close()


def _combined(failures: Sequence[ModelFailed]) -> ModelFailed:
    last = failures[-1]
    waits = [error.retry_after_ms for error in failures if not error.is_final]
    last.context.update(final=not waits, retry_after_ms=min(waits, default=0))
    return last
