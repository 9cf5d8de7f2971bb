"""Any vendor's model behind the model port, by pydantic-ai's direct API.

What is heavy (pydantic-ai and the vendor's library: a second or more, tens of megabytes) is loaded by the first
question, off the event loop. What can be checked without it is checked before: the settings, the key, and that the
libraries are there.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.kernel.tasks import Tasks
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
        self._speaker: PydanticModel | None = None

    @property
    def name(self) -> str:
        return self._settings.name

    def __repr__(self) -> str:
        return f"AnyModel({self.name!r})"

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        speaker = await self._loaded()
        async with aclosing(speaker.ask(request)) as events:
            async for event in events:
                yield event

    async def load(self) -> None:
        """Load the libraries now instead of with the first question."""
        await self._loaded()

    async def inspect(self) -> str:
        """Whether the vendor is there and takes our key, without asking for an answer. Raises `ModelFailed`."""
        return await (await self._loaded()).inspect()

    async def close(self) -> None:
        """Its connections go. A model that is asked again after this opens new ones."""
        speaker, self._speaker = self._speaker, None
        if speaker is not None:
            await speaker.close()

    async def _loaded(self) -> "PydanticModel":
        async with self._loading:
            if self._speaker is None:
                self._speaker = await self._tasks.in_thread(self._load)
            return self._speaker

    def _load(self) -> "PydanticModel":
        from holdfast.models.pydantic_model import PydanticModel  # noqa: PLC0415 - heavy, and an extra

        return PydanticModel.open(self._settings, self._key)
