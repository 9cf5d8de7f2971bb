"""Opening a runtime from a program: asynchronous, or synchronous and safe from any thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.notifier import Event, Feed
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.views import Delta, SendOptions
from holdfast.turns.model import Model
from holdfast.turns.policy import AgentPolicy

P = ParamSpec("P")
T = TypeVar("T")
_END = object()


@asynccontextmanager
async def open(  # noqa: A001 - `holdfast.open` reads well where it is used
    data: Path | str,
    *,
    model: Model | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    policy: AgentPolicy | None = None,
    serve: bool = True,
) -> AsyncIterator[Runtime]:
    """Open the runtime kept in the folder `data`; without a model, the offline practice model answers."""
    agents = make_agents(model=model, tools=tools, policy=policy)
    async with await open_runtime(data, agents=agents, serve=serve) as runtime:
        yield runtime


@contextmanager
def open_sync(
    data: Path | str,
    *,
    model: Model | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    policy: AgentPolicy | None = None,
    serve: bool = True,
) -> Iterator["SyncRuntime"]:
    """Open a runtime for a synchronous program. Its methods are safe from any thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="holdfast", daemon=True)
    thread.start()
    try:
        agents = make_agents(model=model, tools=tools, policy=policy)
        opening = open_runtime(data, agents=agents, serve=serve)
        opened = asyncio.run_coroutine_threadsafe(opening, loop).result()
        with closing(SyncRuntime(opened, loop)) as runtime:
            yield runtime
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def waits(
    method: Callable[Concatenate[Runtime, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncRuntime", P], T]:
    """A method of the runtime for synchronous callers: it returns when the call is complete."""

    @wraps(method)
    def wait(self: "SyncRuntime", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._do(method(self._runtime, *args, **kwargs))

    return wait


class SyncRuntime:
    """A runtime on an event loop of its own thread.

    A call is either scheduled before the loop stops or refused, because a stopped loop never completes a call.
    """

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        self._runtime = runtime
        self._loop = loop
        self._closing = threading.Lock()
        self._is_closed = False
        self._ended: Future[None] | None = None

    send = waits(Runtime.send)
    ask = waits(Runtime.ask)
    trace = waits(Runtime.trace)
    sessions = waits(Runtime.sessions)
    history = waits(Runtime.history)
    context = waits(Runtime.context)

    def stream(self, chat: str, text: str, **how: Unpack[SendOptions]) -> Generator[Delta]:
        pieces = self._runtime.stream(chat, text, **how)
        try:
            while isinstance(piece := self._do(_next(pieces)), Delta):
                yield piece
        finally:
            if not self._is_closed:
                self._do(_end(pieces))  # unsubscribe a caller that stopped iterating

    def events(self) -> "SyncFeed":
        """Every event of this process from now on."""
        return SyncFeed(self._do(_subscribe(self._runtime)), self._loop, self._do)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        with self._closing:
            if self._is_closed:
                work.close()
                raise StoreUnavailable("this runtime is closed")
            done = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result()

    def close(self) -> None:
        """Close the runtime. `open_sync` calls this itself; a second call does nothing."""
        with self._closing:
            self._is_closed = True
            if self._ended is None:
                self._ended = asyncio.run_coroutine_threadsafe(_close(self._runtime), self._loop)
        self._ended.result()


class SyncFeed(Iterator[Event]):
    """One subscriber's events, from its creation until it is closed."""

    def __init__(
        self, feed: Feed, loop: asyncio.AbstractEventLoop, do: Callable[[Coroutine[Any, Any, Event]], Event]
    ) -> None:
        self._feed = feed
        self._loop = loop
        self._do = do

    def __next__(self) -> Event:
        try:
            return self._do(self._feed.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop has ended and delivers no more events
            self._loop.call_soon_threadsafe(self._feed.close)


async def _next(pieces: AsyncIterator[Delta]) -> object:
    return await anext(pieces, _END)


async def _end(pieces: AsyncGenerator[Delta]) -> None:
    await pieces.aclose()


async def _subscribe(runtime: Runtime) -> Feed:
    return runtime.events()


async def _close(runtime: Runtime) -> None:
    """Close the runtime and end the calls of other threads, which a stopped event loop would never complete."""
    try:
        await runtime.close()
    finally:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_asyncgens()
