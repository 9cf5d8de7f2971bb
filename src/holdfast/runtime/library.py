"""Opening a runtime from a program: asynchronous, or synchronous and safe from any thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast.inbox.message_trace import MessageTrace
from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import MessageId, SessionId
from holdfast.kernel.notifier import Event, Feed
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.views import Delta
from holdfast.sessions.session import Session
from holdfast.turns.context import Context
from holdfast.turns.journal import EntryView
from holdfast.turns.model import Model
from holdfast.turns.policy import AgentPolicy

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
    runtime = await open_runtime(data, agents=agents, serve=serve)
    try:
        yield runtime
    finally:
        await runtime.close()


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
        runtime = SyncRuntime(asyncio.run_coroutine_threadsafe(opening, loop).result(), loop)
        try:
            yield runtime
        finally:
            runtime.close()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


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

    def send(
        self,
        chat: str,
        text: str,
        *,
        agent: str | None = None,
        sender: str | None = None,
        id: str | None = None,
        directory: Path | str | None = None,
        trusted: bool = True,
    ) -> MessageId:
        return self._do(
            self._runtime.send(chat, text, agent=agent, sender=sender, id=id, directory=directory, trusted=trusted)
        )

    def ask(
        self,
        chat: str,
        text: str,
        *,
        agent: str | None = None,
        sender: str | None = None,
        id: str | None = None,
        directory: Path | str | None = None,
        trusted: bool = True,
    ) -> str:
        return self._do(
            self._runtime.ask(chat, text, agent=agent, sender=sender, id=id, directory=directory, trusted=trusted)
        )

    def stream(
        self,
        chat: str,
        text: str,
        *,
        agent: str | None = None,
        sender: str | None = None,
        id: str | None = None,
        directory: Path | str | None = None,
        trusted: bool = True,
    ) -> Generator[Delta]:
        pieces = self._runtime.stream(
            chat, text, agent=agent, sender=sender, id=id, directory=directory, trusted=trusted
        )
        try:
            while isinstance(piece := self._do(_next(pieces)), Delta):
                yield piece
        finally:
            if not self._is_closed:
                self._do(_end(pieces))  # unsubscribe a caller that stopped iterating

    def events(self) -> "SyncFeed":
        """Every event of this process from now on."""
        return SyncFeed(self._do(_subscribe(self._runtime)), self._loop, self._do)

    def trace(self, message: MessageId) -> MessageTrace:
        return self._do(self._runtime.trace(message))

    def sessions(self, *, agent: str | None = None, chat: str | None = None) -> Sequence[Session]:
        return self._do(self._runtime.sessions(agent=agent, chat=chat))

    def history(self, session: SessionId, *, after: int = 0, limit: int = 200) -> Sequence[EntryView]:
        return self._do(self._runtime.history(session, after=after, limit=limit))

    def context(self, session: SessionId) -> Context:
        return self._do(self._runtime.context(session))

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
