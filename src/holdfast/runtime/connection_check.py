"""Connection tests of models, memory providers and channels, concurrently and with a time limit.

A test changes nothing on the server: it requests the vendor's list of models, a record of the memory provider, or the
name of the bot.
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
from holdfast.models.lazy_model import AnyModel
from holdfast.turns.model import Model

NOT_TRIED = "not tested: it supports no test without side effects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The result of one connection test. `detail` is the server's identity, or the reason for the failure."""

    agent: str
    kind: str  # model, memory or channel
    name: str
    ok: bool
    detail: str
    duration_ms: int


@runtime_checkable
class SlowToLoad(Protocol):
    """A component whose libraries take seconds to load."""

    async def load(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Attemptable:
    agent: str
    kind: str
    name: str
    ask: Callable[[], Awaitable[str]]  # returns the identity of the server; raises `HoldfastError`
    close: Callable[[], Awaitable[None]]
    load: Callable[[], Awaitable[None]] | None = None  # loading libraries does not count against the time limit


async def attempt_all(wanted: Sequence[Attemptable], wait_s: float, clock: Clock, tasks: Tasks) -> tuple[Attempt, ...]:
    """Test every component, each for at most `wait_s`; results are in the given order."""
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
        detail = f"no response within {wait_s:g} s"
    except HoldfastError as error:
        detail = error.reason if isinstance(error, ChannelFailed) else str(error)
    except Exception as error:  # noqa: BLE001 - providers and channels may be third-party code
        ok, detail = False, f"raised {type(error).__name__}"
    return Attempt(agent=thing.agent, kind=thing.kind, name=thing.name, ok=ok, detail=detail, duration_ms=took_ms)


# --- the test of each kind -------------------------------------------------------------------------


class ProviderUnwell(HoldfastError):
    """A memory provider reported that it cannot accept deliveries."""

    code = "provider_unwell"
    remedy = Remedy.REPAIR
    hint = "Check the settings of the provider and the server that they name."


async def ask_provider(provider: Provider) -> str:
    why = await (provider.inspect() if isinstance(provider, Inspectable) else provider.healthy())
    if why is not None:
        raise ProviderUnwell(why)
    return "available"


async def ask_channel(channel: Channel) -> str:
    return await channel.identify() if isinstance(channel, Identifiable) else NOT_TRIED


async def ask_model(model: Model) -> str:
    if isinstance(model, AnyModel):
        return await model.inspect()
    return "runs offline"
