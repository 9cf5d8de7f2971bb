"""The whole path with a model that answers at once: accept, claim, turn, commit, reply."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest

MESSAGES = {1: 150, 64: 960}


class Instant:
    """Answers without thinking, so that only the runtime is measured."""

    name = "instant"

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        del request
        yield ModelAnswer(text="Understood.")


async def accept_path(folder: Path, chats: int, note: Callable[[str], None]) -> dict[str, object]:
    runtime = await open_runtime(folder / f"accept-{chats}", agents=make_agents(model=Instant()))
    each = MESSAGES[chats] // chats

    async def talk(chat: int) -> None:
        for number in range(each):
            await runtime.ask(f"chat{chat}", "a message of usual length, as people send them", id=str(number))

    note(f"{chats} chats, {each} messages each")
    started = time.perf_counter()
    await asyncio.gather(*(talk(chat) for chat in range(chats)))
    duration = time.perf_counter() - started
    await runtime.close()
    return {"chats": chats, "messages_per_s": round(each * chats / duration, 1)}
