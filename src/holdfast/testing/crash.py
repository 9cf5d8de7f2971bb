"""Crashes at the edges of the runtime.

Every effect crosses a port, so crashes before and after each verb of the store and of each port cover every crash that
is visible from outside. Production code needs no hooks.

`reach(verb, side)` decides. It kills by `die()`, by killing the node, or by raising `Crash`; all three end
the same way inside a node: the call never returns and no `finally` above it runs. A `Crash` raised
further inside, between two statements of a transaction, is caught here too. Outside any node there is
nothing to kill, so the `Crash` propagates to the test.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from functools import wraps
from typing import Any, Generic, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar, cast

from holdfast.store.ports import Database
from holdfast.store.script import Call, R
from holdfast.testing.node import NEVER, NODE, Crash, die, is_dead

__all__ = ["Crash", "CrashPoint", "Reach", "Side", "crashing", "die", "points"]

P = TypeVar("P")
Side: TypeAlias = Literal["before", "after"]
Reach: TypeAlias = Callable[[str, Side], object]

SIDES: tuple[Side, Side] = ("before", "after")
ASYNC_RESULTS = ("AsyncIterator", "AsyncIterable", "AsyncGenerator", "Awaitable", "Coroutine")


class CrashPoint(NamedTuple):  # hashed at every verb, so a tuple
    verb: str
    side: Side

    def __str__(self) -> str:
        return f"{self.side} {self.verb}"


def points(*protocols: type) -> list[CrashPoint]:
    """The points before and after every async verb of every port, read from the protocols."""
    return points_of(dict.fromkeys(name for protocol in protocols for name in verbs(protocol)))


def points_of(names: Iterable[str]) -> list[CrashPoint]:
    """The points before and after the named verbs of the store."""
    return [CrashPoint(verb, side) for verb in names for side in SIDES]


def verbs(protocol: type) -> list[str]:
    """The public async methods, in the order they are written; inherited ones first."""
    ports = [base for base in reversed(protocol.__mro__) if base not in (object, Generic, Protocol)]
    return [
        name
        for port in ports
        for name, member in vars(port).items()
        if not name.startswith("_") and inspect.isfunction(member) and is_async(member)
    ]


def is_async(function: Callable[..., Any]) -> bool:
    """A protocol declares an async generator as a plain `def` that returns an AsyncIterator."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    returned = str(function.__annotations__.get("return", ""))
    return any(name in returned for name in ASYNC_RESULTS)


def crashing(port: P, reach: Reach) -> P:
    """The port, with `reach` called around every async verb; other attributes are passed through."""
    return cast("P", _Crashing(port, reach))


class CrashingDatabase:
    """Implements `Database` over another one, with `reach` called around every call under the name of its verb."""

    def __init__(self, inner: Database, reach: Reach) -> None:
        self._inner = inner
        self._reach = reach

    async def write(self, call: Call[R]) -> R:
        value: R = await _guarded(call.verb, self._reach, self._inner.write, call)
        return value

    async def read(self, call: Call[R]) -> R:
        value: R = await _guarded(call.verb, self._reach, self._inner.read, call)
        return value

    async def changed(self) -> bool:
        found: bool = await _guarded("changed", self._reach, self._inner.changed)
        return found

    async def scrub(self) -> str:
        return await self._inner.scrub()

    def wal_bytes(self) -> int:
        return self._inner.wal_bytes()

    async def close(self) -> None:
        await _guarded("close", self._reach, self._inner.close)


class _Crashing:
    def __init__(self, port: object, reach: Reach) -> None:
        self._port = port
        self._reach = reach

    def __repr__(self) -> str:
        return f"crashing({self._port!r})"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        member = getattr(self._port, name)
        if not callable(member):
            return member
        if inspect.isasyncgenfunction(member):
            guarded: Callable[..., Any] = _guard_items(name, member, self._reach)
        elif inspect.iscoroutinefunction(member):
            guarded = _guard_call(name, member, self._reach)
        else:
            return member
        vars(self)[name] = guarded  # found without __getattr__ from now on
        return guarded


def _guard_call(verb: str, call: Callable[..., Any], reach: Reach) -> Callable[..., Any]:
    @wraps(call)
    async def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return await _guarded(verb, reach, call, *args, **kwargs)

    return guarded


async def _guarded(verb: str, reach: Reach, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    node = NODE.get()
    if node is not None and not node.alive:  # a `finally` of a dead node, run when its tasks are closed
        await NEVER
    try:
        reach(verb, "before")
        if node is not None and not node.alive:
            await NEVER
        result = await call(*args, **kwargs)
        reach(verb, "after")
    except Crash as crash:
        await _stand_still(crash)
    if node is not None and not node.alive:
        await NEVER
    return result


def _guard_items(verb: str, call: Callable[..., Any], reach: Reach) -> Callable[..., Any]:
    @wraps(call)
    async def guarded(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        if is_dead():
            await NEVER
        try:
            reach(verb, "before")
            if is_dead():
                await NEVER
            async with aclosing(call(*args, **kwargs)) as items:
                async for item in items:
                    yield item
            reach(verb, "after")
        except Crash as crash:
            await _stand_still(crash)
        if is_dead():
            await NEVER

    return guarded


async def _stand_still(crash: Crash) -> NoReturn:
    """Kill the node, or raise the crash again outside any node."""
    node = NODE.get()
    if node is None:
        raise crash
    node.kill()
    await NEVER
