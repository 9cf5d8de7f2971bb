"""A store's side for the tests of the Discord channel: an intake that can fail, wait, and be read like a mailbox."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from holdfast.channels.discord import DiscordChannel, make_discord
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelFactory, ChannelSetup, IntakeOutcome
from holdfast.inbox.chat_message import ChatMessage, conversation_of
from holdfast.kernel.ids import AgentName, MessageId, ReplyId
from holdfast.kernel.machine import SystemClock, SystemEntropy
from holdfast.kernel.ports import Clock
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.outbox.post import Post
from tests.platforms.discord import FakeDiscord
from tests.platforms.discord_shapes import Bot, Room
from tests.support.pace import WAIT_S, HastyTasks
from tests.support.patience import within

FACTORY: ChannelFactory = make_discord  # a type checker sees that the port is kept


class Mailbox:
    """Implements `Intake` as the store does: once per conversation and event, with the newest position of each."""

    def __init__(self) -> None:
        self.taken: list[ChatMessage] = []
        self.offered = 0
        self.errors: deque[Exception] = deque()  # each is raised by one call of `receive`
        self.read_errors: deque[Exception] = deque()
        self.positions: dict[str, tuple[int, str]] = {}
        self.notes: list[tuple[str, int]] = []  # every call of `note_read`
        self.ups: list[str] = []
        self.downs: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self._ids: set[tuple[str, str, str]] = set()
        self._changed = asyncio.Event()

    async def receive(self, message: ChatMessage) -> IntakeOutcome:
        self.offered += 1
        self._changed.set()
        await self.open.wait()
        if self.errors:
            raise self.errors.popleft()
        conversation = conversation_of(message.chat, message.thread)
        key = (message.account, conversation, message.event_id)
        if message.position is not None and message.position > self.positions.get(conversation, (0, ""))[0]:
            self.positions[conversation] = (message.position, message.event_id)
        if key in self._ids:
            return IntakeOutcome.DUPLICATE
        self._ids.add(key)
        self.taken.append(message)
        self._changed.set()
        return IntakeOutcome.TAKEN

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        if self.read_errors:
            raise self.read_errors.popleft()
        return dict(self.positions)

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        self.notes.append((conversation, position))
        if position > self.positions.get(conversation, (0, ""))[0]:
            self.positions[conversation] = (position, event_id)
        self._changed.set()

    async def moved(self, old_chat: str, new_chat: str, *, new_type: str) -> None:
        raise AssertionError("Discord moves no chats")

    def connected(self, detail: str = "") -> None:
        self.ups.append(detail)
        self._changed.set()

    def disconnected(self, reason: str, *, vendor: VendorError = NO_ANSWER) -> None:
        self.downs.append(reason)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with within(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def has(self, count: int) -> None:
        await self.until(lambda: len(self.taken) >= count)

    def texts(self, room: Room | None = None) -> list[str]:
        return [one.text for one in self.taken if room is None or room.id in (one.chat, one.thread)]


def tasks_of(channel: DiscordChannel) -> HastyTasks:
    return cast("HastyTasks", channel._setup.tasks)


def setup_of(fake: FakeDiscord, bot: Bot, **settings: object) -> ChannelSetup:
    return ChannelSetup(
        name="discord",
        agent=AgentName("ada"),
        settings={"token_env": "DISCORD_TOKEN", "api_url": fake.url, **settings},
        environment={"DISCORD_TOKEN": bot.token},
        folder=Path(),
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=HastyTasks(),
    )


@asynccontextmanager
async def running(
    fake: FakeDiscord, bot: Bot, mailbox: Mailbox, clock: Clock | None = None
) -> AsyncIterator[DiscordChannel]:
    """The channel, connected; stopped in the end as a runtime does it."""
    channel = make_discord(replace(setup_of(fake, bot), clock=clock or SystemClock()))
    ups = len(mailbox.ups)
    task = asyncio.get_running_loop().create_task(channel.run(mailbox))
    task.add_done_callback(lambda _: mailbox._changed.set())
    try:
        await mailbox.until(lambda: len(mailbox.ups) > ups or task.done())
        yield channel
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await channel.close()


def post_to(room: Room, text: str, *, reply: str = "rep_1", part: int = 0, in_reply_to: str = "") -> Post:
    chat, thread = (room.parent, room.id) if room.parent else (room.id, None)
    address = Address(agent=AgentName("ada"), channel="discord", type="group", chat=chat, thread=thread)
    return Post(
        reply=ReplyId(reply),
        part=part,
        parts=1,
        address=address,
        text=text,
        message=MessageId("msg_1"),
        in_reply_to=in_reply_to,
    )
