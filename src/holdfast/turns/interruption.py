"""Interruption: `/stop` and interrupting arrivals end a turn while the model or a tool is running.

A watch exists for as long as a mailbox is claimed. It reads the store only if a message was accepted since the newest
transaction of its worker, and once a second, because another process may accept one.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, TypeVar

from holdfast.inbox.mailbox import Claim, plain_run
from holdfast.inbox.mailbox_sql import read_mail
from holdfast.kernel.errors import InvariantBroken, StoreUnavailable
from holdfast.kernel.notifier import Event
from holdfast.store.ports import Ports

LOOK_EVERY_MS = 1_000  # `/stop` may be accepted by another process
T = TypeVar("T")


class Interruption(Enum):
    STOPPED = "stopped by /stop"
    SUPERSEDED = "another message came in"


class MailboxWatch:
    """Watches a claimed mailbox. `is_news` says whether a message may have been accepted since the claim."""

    def __init__(
        self, ports: Ports, claim: Claim, *, is_news: bool = False, wait: Callable[[int], None] = lambda _: None
    ) -> None:
        self._ports = ports
        self._claim = claim
        self._is_news = is_news
        self._wait = wait  # told when a wait for a model, a tool or memory begins (1) and ends (-1)
        self._stirred = asyncio.Event()  # a message was accepted, or the running work ended
        self._leave = ports.notifier.listen(claim.mailbox, self._hear)

    def close(self) -> None:
        self._leave()

    def begin_transaction(self) -> None:
        """The worker's next transaction sees every message that was accepted until now."""
        self._is_news = False

    def _hear(self, event: Event) -> None:
        if event.name == "message.accepted":
            self._is_news = True
            self._stirred.set()

    async def race(self, work: Coroutine[Any, Any, T], *, arrivals_interrupt: bool) -> T | Interruption:
        """The result of `work`, or the interruption that came first; `work` is then cancelled.

        Raises what `work` raises, and `ClaimLost` if the claim is lost.
        """
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = self._ports.tasks.start(self._run(work, ended), name="work")
        self._wait(1)
        look = self._is_news or arrivals_interrupt  # messages may have waited since before the turn
        try:
            while True:
                self._stirred.clear()
                if look and (why := await self._look(arrivals_interrupt=arrivals_interrupt)) is not None:
                    return why
                if ended.done():
                    return ended.result()
                look = await self._until_stirred() or self._is_news
        finally:
            self._wait(-1)
            task.cancel()
            _close_unbegun(work)
            _consume(ended)

    async def _until_stirred(self) -> bool:
        """Wait until there is something to look at; True after the longest time without a look."""
        try:
            async with asyncio.timeout(LOOK_EVERY_MS / 1000):
                await self._stirred.wait()
        except TimeoutError:
            return True
        return False

    async def _look(self, *, arrivals_interrupt: bool) -> Interruption | None:
        """Why the open turn must be interrupted, if it must.

        A failed read does not cut off the running model or tool: the next read follows soon, and if the store stays
        unavailable, the turn's own writes fail.
        """
        self._is_news = False
        try:
            mail = await self._ports.db.read(read_mail(self._claim, limit=1))
        except StoreUnavailable:
            return None
        if mail.turn is not None and mail.turn.stopping:
            return Interruption.STOPPED
        return Interruption.SUPERSEDED if arrivals_interrupt and plain_run(mail.waiting) else None

    async def _run(self, work: Coroutine[Any, Any, T], ended: asyncio.Future[T]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            # If the race itself is not cancelled, the coroutine cancelled itself, and `ended` would never be set.
            _fail(ended, InvariantBroken("a part of a turn cancelled itself"))
            raise
        except Exception as error:  # noqa: BLE001 - raised again by `ended`
            _fail(ended, error)
        else:
            if not ended.done():
                ended.set_result(result)
        finally:
            self._stirred.set()


def _fail(ended: asyncio.Future[Any], error: Exception) -> None:
    if not ended.done():
        ended.set_exception(error)


def _consume(ended: asyncio.Future[Any]) -> None:
    """Mark an error as seen if an interruption came first; asyncio reports it otherwise."""
    if ended.done() and not ended.cancelled():
        ended.exception()
    else:
        ended.cancel()


def _close_unbegun(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine whose task was cancelled before it started; no other code closes it."""
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()
