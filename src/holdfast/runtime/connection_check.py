"""Connecting: whether models, memory providers and channels really answer, tried at the same time for a bounded time.

Nothing is written at the other side: a model is asked for its vendor's list of models, a provider for something that
it keeps, a channel for the bot's name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.inbox.channel import Channel, Identifiable
from holdfast.kernel.clock import Clock
from holdfast.kernel.errors import ChannelFailed, HoldfastError, Remedy
from holdfast.kernel.tasks import Tasks
from holdfast.memory.provider import Inspectable, Provider
from holdfast.models.lazy_model import LazyModel
from holdfast.turns.model import Model

NOT_TRIED = "not tried: it offers no way to ask without effect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One thing that was tried. `detail` says who answered, or why nobody did."""

    agent: str
    kind: str  # model, memory or channel
    name: str
    ok: bool
    detail: str
    duration_ms: int


@runtime_checkable
class SlowToLoad(Protocol):
    """What needs libraries that take seconds to load."""

    async def load(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Attemptable:
    agent: str
    kind: str
    name: str
    ask: Callable[[], Awaitable[str]]  # what it says of itself; raises `HoldfastError`
    close: Callable[[], Awaitable[None]]
    load: Callable[[], Awaitable[None]] | None = None  # what is loaded here is no part of the other side's time


async def attempt_all(wanted: Sequence[Attemptable], wait_s: float, clock: Clock, tasks: Tasks) -> tuple[Attempt, ...]:
    """Every one of them, in the order given; none is waited for longer than `wait_s`."""
    ended: asyncio.Queue[tuple[int, Attempt]] = asyncio.Queue()

    async def one(n: int) -> None:
        ended.put_nowait((n, await _attempt(wanted[n], wait_s, clock)))

    for n, thing in enumerate(wanted):
        tasks.start(one(n), name=f"connect {thing.name}")
    found = dict([await ended.get() for _ in wanted])
    return tuple(found[n] for n in range(len(wanted)))


async def _attempt(thing: Attemptable, wait_s: float, clock: Clock) -> Attempt:
    began, ok, took_ms = clock.now(), False, 0
    try:
        try:
            if thing.load is not None:
                await thing.load()
                began = clock.now()
            async with asyncio.timeout(wait_s):
                detail = await thing.ask()
            ok = True
        finally:
            took_ms = clock.now() - began
            await thing.close()
    except TimeoutError:
        detail = f"no answer within {wait_s:g} s"
    except HoldfastError as error:
        detail = error.reason if isinstance(error, ChannelFailed) else str(error)
    except Exception as error:  # noqa: BLE001 - a provider or channel may be anybody's code
        ok, detail = False, f"{type(error).__name__} was raised instead of an answer"
    return Attempt(agent=thing.agent, kind=thing.kind, name=thing.name, ok=ok, detail=detail, duration_ms=took_ms)


# --- how each kind is asked -------------------------------------------------------------------------


class Unwell(HoldfastError):
    """A memory provider says why it takes nothing."""

    code = "provider_unwell"
    remedy = Remedy.REPAIR
    hint = "Look at its settings, and at the server that they lead to."


async def ask_provider(provider: Provider) -> str:
    why = await (provider.inspect() if isinstance(provider, Inspectable) else provider.healthy())
    if why is not None:
        raise Unwell(why)
    return "there"


async def ask_channel(channel: Channel) -> str:
    return await channel.identify() if isinstance(channel, Identifiable) else NOT_TRIED


async def ask_model(model: Model) -> str:
    if isinstance(model, LazyModel):
        return await model.inspect()
    return "answers here, offline"
