"""A client of the simulated processes: it asks any live node, and repeats until one of them answers.

A request may take effect more than once if an answer is lost, so checks consider how often it was sent
(`AnswerHeard.asked`).
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.kernel.errors import HoldfastError, StoreUnavailable
from holdfast.runtime.runtime import Runtime
from holdfast.testing.node import NodeDown
from holdfast.testing.platform import AGAIN_S_MAX, ATTEMPTS_MAX, WAIT_S, Live, answer_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AnswerHeard(Generic[T]):
    """An answer: a value or an error, with the times of the first request and of the answer."""

    answer: T | HoldfastError | None
    begun_at: float
    ended_at: float


class RetryingClient:
    def __init__(self, chance: str, live: Live) -> None:
        self._chance = random.Random(chance)
        self._live = live

    async def until_heard(self, what: str, ask: Callable[[Runtime], Coroutine[Any, Any, T]]) -> AnswerHeard[T]:
        """The first answer. Its `answer` is None only if no node was live in any attempt."""
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        for _ in range(ATTEMPTS_MAX):
            live = self._live()
            if live:
                node, runtime = live[int(self._chance.random() * len(live))]
                try:
                    async with asyncio.timeout(WAIT_S):
                        answer = await node.call(answer_of(ask(runtime)), name=what)
                except (NodeDown, TimeoutError):
                    answer = StoreUnavailable("no answer")
                if not isinstance(answer, StoreUnavailable):
                    return AnswerHeard(answer, begun_at, loop.time())
            await asyncio.sleep(self._chance.random() * AGAIN_S_MAX)
        return AnswerHeard(None, begun_at, loop.time())
