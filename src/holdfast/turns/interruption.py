"""Interruption: `/stop` and interrupting arrivals end a turn while the model or a tool is running."""

import asyncio
import inspect
from collections.abc import Coroutine
from enum import Enum
from typing import Any, TypeVar

from holdfast.inbox.mail_sql import read_mail
from holdfast.inbox.mailbox import Claim, Mail, plain_run
from holdfast.kernel.errors import InvariantBroken, StoreUnavailable
from holdfast.kernel.notifier import Notifier
from holdfast.kernel.tasks import Tasks
from holdfast.store.database import Database

LOOK_EVERY_MS = 1_000  # `/stop` may be accepted by another process
T = TypeVar("T")


class Interruption(Enum):
    STOPPED = "stopped by /stop"
    SUPERSEDED = "another message came in"


async def watch(db: Database, notifier: Notifier, claim: Claim, *, arrivals_interrupt: bool) -> Interruption:
    """Wait until the open turn must be interrupted. Raises `ClaimLost` if the claim is lost."""
    feed = notifier.subscribe(mailbox=claim.mailbox, name="message.accepted")
    try:
        while True:
            mail = await _look(db, claim)
            if mail is not None and mail.turn is not None and mail.turn.stopping:
                return Interruption.STOPPED
            if mail is not None and arrivals_interrupt and plain_run(mail.waiting):
                return Interruption.SUPERSEDED
            await feed.next_within(LOOK_EVERY_MS)
    finally:
        feed.close()


async def _look(db: Database, claim: Claim) -> Mail | None:
    """The waiting mail; None while the store is unavailable.

    A failed read does not cut off the running model or tool: the next read follows soon, and if the store stays
    unavailable, the turn's own writes fail.
    """
    try:
        return await db.read(read_mail(claim, limit=1))
    except StoreUnavailable:
        return None


async def race(
    tasks: Tasks, work: Coroutine[Any, Any, T], watching: Coroutine[Any, Any, Interruption]
) -> T | Interruption:
    """The result of the first coroutine to end; the other one is cancelled. An error of either is raised."""
    first: asyncio.Future[T | Interruption] = asyncio.get_running_loop().create_future()

    async def run(entrant: Coroutine[Any, Any, T | Interruption]) -> None:
        try:
            result = await entrant
        except asyncio.CancelledError:
            # If the race itself is not cancelled, the coroutine cancelled itself, and `first` would never be set.
            _fail(first, InvariantBroken("a part of a turn cancelled itself"))
            raise
        except Exception as error:  # noqa: BLE001 - raised again by `first`
            _fail(first, error)
        else:
            if not first.done():
                first.set_result(result)

    entrants = [tasks.start(run(work), name="work"), tasks.start(run(watching), name="watch")]
    try:
        return await first
    finally:
        for entrant in entrants:
            entrant.cancel()
        for coroutine in (work, watching):
            _close_unbegun(coroutine)


def _fail(first: asyncio.Future[Any], error: Exception) -> None:
    if not first.done():
        first.set_exception(error)


def _close_unbegun(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine whose task was cancelled before it started; no other code closes it."""
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()
