"""Room in the window: at the hard threshold a turn waits for a summary; the mailbox keeps accepting meanwhile."""

import asyncio

from holdfast import log
from holdfast.core.compress import Pressure, Thresholds, pressure
from holdfast.core.context import Context, fit
from holdfast.loops.compressor import Compressor
from holdfast.ports.notifier import Notifier
from holdfast.ports.store import Store

BUSY_WAIT_MS = 1_000


class RoomMaker:
    def __init__(self, store: Store, compressor: Compressor, notifier: Notifier) -> None:
        self._store = store
        self._compressor = compressor
        self._notifier = notifier

    async def make(self, context: Context, thresholds: Thresholds, instructions: str) -> Context:
        """The context once it fits, by summaries or, where they fail, by leaving the oldest out.

        A summariser that has just failed is not waited for again: the turn goes on with what fits.
        """
        for forced in (False, True):
            result = await self._compressor.compress(context.session, context.agent, forced=forced)
            if result.outcome == "busy":
                await self._other_compression(context, thresholds)
            context = await self._store.read_context(context.session)
            if pressure(context.used_tokens(instructions), thresholds) is not Pressure.HARD:
                return context
            if result.outcome == "failed":
                break
        fitted, left_out = fit(context, thresholds, instructions)
        if left_out:
            log.warning("turn.trimmed", left_out=left_out)
        return fitted

    async def _other_compression(self, context: Context, thresholds: Thresholds) -> None:
        """Wait for the running compression of this session to end, no longer than a summariser may take."""
        feed = self._notifier.subscribe(name="compress.done")
        try:
            async with asyncio.timeout(thresholds.summariser_wait_ms / 1000):
                while await self._compressor.running(context.session) is not None:
                    await feed.next_within(BUSY_WAIT_MS)
        except TimeoutError:
            log.warning("compress.done", outcome="busy", why="the running compression did not end in time")
        finally:
            feed.close()
