"""Watching a running turn: `/stop` and interrupting arrivals end it while the model or a tool still works."""

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

LOOK_EVERY_MS = 1_000  # another process may have accepted the /stop
T = TypeVar("T")


class Interruption(Enum):
    STOPPED = "stopped by /stop"
    SUPERSEDED = "another message came in"


async def watch(db: Database, notifier: Notifier, claim: Claim, *, arrivals_interrupt: bool) -> Interruption:
    """Until the open turn is to be interrupted. Raises `ClaimLost` when it is not ours any more."""
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
    """What waits; None while the store is away. An answer that is under way, or a tool's work, is not cut off over a
    look: the next one comes soon, and if the store stays away the turn's own writes say so."""
    try:
        return await db.read(read_mail(claim, limit=1))
    except StoreUnavailable:
        return None


async def race(
    tasks: Tasks, work: Coroutine[Any, Any, T], watching: Coroutine[Any, Any, Interruption]
) -> T | Interruption:
    """The result of whichever ends first; the other is cancelled. An error of either is raised."""
    first: asyncio.Future[T | Interruption] = asyncio.get_running_loop().create_future()

    async def run(entrant: Coroutine[Any, Any, T | Interruption]) -> None:
        try:
            result = await entrant
        except asyncio.CancelledError:
            # While nobody has cancelled the race, the entrant did it to itself and would never arrive.
            _fail(first, InvariantBroken("a part of a turn cancelled itself"))
            raise
        except Exception as error:  # noqa: BLE001 - handed on to the one who waits
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
    """A coroutine whose task was cancelled before it began is nobody else's to close."""
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()
