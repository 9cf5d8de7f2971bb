"""Context fitting: at the hard threshold a turn waits for a summary; the mailbox keeps accepting messages."""

import asyncio
from contextlib import closing

from holdfast.kernel import log
from holdfast.sessions.compression import Pressure, Thresholds
from holdfast.sessions.compressor import Compressed, Compressor
from holdfast.store.ports import Ports
from holdfast.turns.context import Context, fit
from holdfast.turns.context_cache import ContextCache

BUSY_WAIT_MS = 1_000
OTHERS_MAX = 3  # running compressions that one attempt waits for


class ContextFitter:
    def __init__(
        self,
        ports: Ports,
        contexts: ContextCache,
        compressor: Compressor,
    ) -> None:
        self._ports = ports
        self._contexts = contexts
        self._compressor = compressor

    async def make(self, context: Context, thresholds: Thresholds, instructions: str) -> Context:
        """A context that fits: compressed or, if summarising fails, with the oldest entries left out.

        After a failure of the summariser the turn does not wait for it again; it continues with the entries that fit.
        """
        for forced in (False, True):
            result = await self._compress(context, thresholds, forced=forced)
            context = await self._contexts.read(context.session)
            if context.pressure(thresholds, instructions) is not Pressure.HARD:
                return context
            if result.outcome == "failed":
                break
        fitted, left_out = fit(context, thresholds, instructions)
        if left_out:
            log.warning("turn.trimmed", left_out=left_out)
        return fitted

    async def _compress(self, context: Context, thresholds: Thresholds, *, forced: bool) -> Compressed:
        """Compress after the running compressions of this session.

        A running compression may cover fewer entries, so it does not count as this turn's attempt.
        """
        result = await self._compressor.compress(context.session, context.agent, forced=forced)
        for _ in range(OTHERS_MAX):
            if result.outcome != "busy" or not await self._other_compression(context, thresholds):
                break
            result = await self._compressor.compress(context.session, context.agent, forced=forced)
        return result

    async def _other_compression(self, context: Context, thresholds: Thresholds) -> bool:
        """Wait for the running compression of this session, at most as long as a summariser may take.

        Returns False if it did not end in that time.
        """
        try:
            with closing(self._ports.notifier.subscribe(name="compress.done")) as feed:
                async with asyncio.timeout(thresholds.summariser_wait_ms / 1000):
                    while await self._compressor.running(context.session) is not None:
                        await feed.next_within(BUSY_WAIT_MS)
        except TimeoutError:
            log.warning("compress.done", outcome="busy", why="the running compression did not end in time")
            return False
        return True
