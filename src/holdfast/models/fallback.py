"""Several models in order: the next one answers when one cannot.

Rule 1: a failure that another model might not have (`elsewhere`) moves on; a refusal does not.
Rule 2: what was heard of the one that failed is void, and whoever listens is told so.
Rule 3: when none could, the failure is the last one's, and it is final only if all were. The wait is the
        shortest that any of them wants: one that can answer is enough.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from holdfast.kernel import log
from holdfast.kernel.errors import ModelFailed
from holdfast.turns.model import AnswerRestarted, Connected, Model, ModelEvent, ModelRequest, listen


class Fallback(Connected):
    """Implements `Model`; it bears the name of the first one."""

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
        raise _together(failures)

    async def close(self) -> None:
        for model in self._models:
            if isinstance(model, Connected):
                await model.close()


def _together(failures: Sequence[ModelFailed]) -> ModelFailed:
    last = failures[-1]
    waits = [error.retry_after_ms for error in failures if not error.is_final]
    last.context.update(final=not waits, retry_after_ms=min(waits, default=0))
    return last
