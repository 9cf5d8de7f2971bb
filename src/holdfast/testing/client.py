"""A client of the nodes: it asks any live node, stops waiting after a while, and repeats until it has an answer."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from holdfast.kernel.errors import HoldfastError, StoreUnavailable
from holdfast.runtime.runtime import Runtime
from holdfast.testing.node import NodeDown, SimNode
from holdfast.testing.platform import AGAIN_S_MAX, ATTEMPTS_MAX, WAIT_S

T = TypeVar("T")
Asked: TypeAlias = Callable[[Runtime], Coroutine[Any, Any, T]]


class Client:
    def __init__(
        self,
        chance: random.Random,
        live: Callable[[], Sequence[tuple[SimNode, Runtime]]],
        note: Callable[..., None],
    ) -> None:
        self._chance = chance
        self._live = live
        self._note = note

    async def until_heard(self, what: str, asked: Asked[T]) -> T | None:
        for _ in range(ATTEMPTS_MAX):
            found = await self.once(what, asked)
            if found is not None and not isinstance(found, StoreUnavailable):
                return None if isinstance(found, HoldfastError) else found
            await asyncio.sleep(self._chance.random() * AGAIN_S_MAX)
        return None

    async def once(self, what: str, asked: Asked[T]) -> T | HoldfastError | None:
        """The answer, or the error that was the answer; None if no node answered."""
        live = self._live()
        if not live:
            return None
        node, runtime = live[int(self._chance.random() * len(live))]

        async def ask() -> T | HoldfastError:
            try:
                return await asked(runtime)
            except HoldfastError as error:
                self._note("not heard", what, error.code)
                return error

        try:
            async with asyncio.timeout(WAIT_S):
                return await node.call(ask(), name=what)
        except (NodeDown, TimeoutError):
            return None
