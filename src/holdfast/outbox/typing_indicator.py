"""The typing indicator: shows in a chat that a turn is running.

Its state is in RAM only, and losing it does not affect the answer. Turns are announced by events of the same process,
so each process shows its own turns. Only a turn that lasts for a moment is looked up, and only if some channel shows an
indicator.
"""

import asyncio
from dataclasses import dataclass

from holdfast.inbox.address import Address
from holdfast.inbox.channel import Channel
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import Instant, MessageId
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Event, is_set_within
from holdfast.outbox.post import PULLED
from holdfast.outbox.reply_sql import find_destination
from holdfast.store.ports import Ports
from holdfast.turns.turn import TurnEvent

BEGIN = frozenset({"turn.opened", "turn.restarted", TurnEvent.DECIDED.value})
END = frozenset(event.value for event in (TurnEvent.ANSWERED, TurnEvent.FAILED, TurnEvent.INTERRUPTED, TurnEvent.ASKED))
SHARE = 0.8  # the fraction of an indicator's lifetime after which it is shown again
SHOWN_MAX = 1_000  # concurrent turns; further turns get no indicator
SHOWN_FOR_MS_MAX = 15 * 60_000  # limit for a turn whose end event was missed
TYPING_WAIT_MS = 5_000
FIRST_AFTER_MS = 300  # a shorter turn ends before people would notice an indicator


@dataclass(slots=True)
class Shown:
    """One running turn. `channel` is None until the channel is found, or if it shows no indicator."""

    began_at: Instant
    next_at: Instant
    message: str
    address: Address | None = None
    channel: Channel | None = None


class TypingIndicator(Loop):
    name = "presence"

    def __init__(self, ports: Ports, *, channels: Channels) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._channels = channels
        self._running: dict[tuple[str, int], Shown] = {}
        self._news = asyncio.Event()
        if any(channel.capabilities.typing for _, channel in channels.all()):
            ports.notifier.tap(self._hear)

    def _hear(self, event: Event) -> None:
        turn = event.session, event.turn
        if event.name in END:
            self._running.pop(turn, None)
        elif event.name in BEGIN and turn not in self._running and event.messages:
            if len(self._running) >= SHOWN_MAX:
                return
            now = self._ports.clock.now()
            self._running[turn] = Shown(now, Instant(now + FIRST_AFTER_MS), event.messages[-1])
            self._news.set()

    async def step(self) -> bool:
        now = self._ports.clock.now()
        for turn, shown in tuple(self._running.items()):
            if now - shown.began_at > SHOWN_FOR_MS_MAX:
                self._running.pop(turn, None)
            elif shown.next_at <= now:
                await self._show(turn, shown)
        return False

    async def _show(self, turn: tuple[str, int], shown: Shown) -> None:
        if shown.channel is None:
            await self._find(shown)
        if shown.channel is None or shown.address is None:
            self._running.pop(turn, None)
            return
        shown.next_at = Instant(self._ports.clock.now() + int(shown.channel.capabilities.typing_lasts_ms * SHARE))
        self._ports.tasks.start(self._type(shown.channel, shown.address), name="typing")

    async def _find(self, shown: Shown) -> None:
        found = await self._ports.db.read(find_destination(MessageId(shown.message)))
        if found is None:
            return
        address = found.address
        channel = None if address.channel in PULLED else self._channels.get(address.agent, address.channel)
        if channel is not None and channel.capabilities.typing:
            shown.address, shown.channel = address, channel

    async def _type(self, channel: Channel, address: Address) -> None:
        """Show the indicator once, best effort."""
        try:
            async with asyncio.timeout(TYPING_WAIT_MS / 1000):
                await channel.typing(address)
        except TimeoutError:
            return

    async def rest(self) -> None:
        """Wait until a turn begins, or until an indicator is due again."""
        soonest = min((shown.next_at for shown in self._running.values()), default=None)
        self._news.clear()
        await is_set_within(self._news, None if soonest is None else max(0, soonest - self._ports.clock.now()))
