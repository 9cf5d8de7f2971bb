"""A vendor's model whose libraries are loaded by the first request, or before `holdfast up` says that it is ready.

pydantic-ai and the vendor's library take a second or more and tens of megabytes, so they are imported in a thread. The
settings, the key and the presence of the libraries are checked before.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.kernel.ports import Tasks
from holdfast.models.prices import has_price
from holdfast.models.settings import ModelSettings
from holdfast.turns.model import Connected, ModelEvent, ModelRequest

if TYPE_CHECKING:
    from holdfast.models.pydantic_model import PydanticModel


class LazyModel(Connected):
    """Implements `Model`."""

    def __init__(self, settings: ModelSettings, key: str | None, tasks: Tasks) -> None:
        self._settings = settings
        self._key = key
        self._tasks = tasks
        self._loading = asyncio.Lock()
        self._model: PydanticModel | None = None

    @property
    def name(self) -> str:
        return self._settings.name

    def __repr__(self) -> str:
        return f"AnyModel({self.name!r})"

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        model = await self._loaded()
        async with aclosing(model.ask(request)) as events:
            async for event in events:
                yield event

    async def load(self) -> None:
        """Load the libraries now instead of with the first request."""
        await self._loaded()

    async def inspect(self) -> str:
        """Whether the vendor can be reached and accepts the key, without asking for an answer. Raises `ModelFailed`."""
        return await (await self._loaded()).inspect()

    async def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        model, self._model = self._model, None
        if model is not None:
            await model.close()

    async def _loaded(self) -> "PydanticModel":
        async with self._loading:
            if self._model is None:
                self._model = await self._tasks.in_thread(self._load)
            return self._model

    def _load(self) -> "PydanticModel":
        from holdfast.models.pydantic_model import PydanticModel  # noqa: PLC0415 - heavy, and an extra

        has_price(self._settings)  # loads the price table
        return PydanticModel.open(self._settings, self._key)
