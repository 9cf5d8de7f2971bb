"""A channel on the fake Telegram, an intake that remembers, and tasks that do not wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.channels.telegram import make_telegram
from holdfast.channels.telegram.channel import TelegramChannel
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelSetup, IntakeOutcome
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import AgentName, Instant, MessageId, ReplyId
from holdfast.kernel.machine import AsyncTasks
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.outbox.post import Post
from tests.platforms.telegram import SOON_S, Bot, Chat, FakeTelegram
from tests.support.patience import within
from tests.support.servers import Dice


@dataclass
class Ear:
    """An `Intake`. What it is told to raise it raises, once each; at a gate it stands until that opens."""

    taken: list[ChatMessage] = field(default_factory=list)
    moves: list[tuple[str, str, str]] = field(default_factory=list)
    line: list[tuple[str, str]] = field(default_factory=list)
    raises: deque[HoldfastError | None] = field(default_factory=deque)
    gate: asyncio.Event | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self, message: ChatMessage) -> IntakeOutcome:
        if self.gate is not None:
            await self.gate.wait()
        error = self.raises.popleft() if self.raises else None
        if error is not None:
            raise error
        self.taken.append(message)
        self._changed.set()
        return IntakeOutcome.TAKEN

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        return {}

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        raise AssertionError("Telegram keeps what was not acknowledged")

    async def moved(self, old_chat: str, new_chat: str, *, new_type: str) -> None:
        self.moves.append((old_chat, new_chat, new_type))
        self._changed.set()
        if self.raises and (error := self.raises.popleft()) is not None:
            raise error

    def connected(self, detail: str = "") -> None:
        self.line.append(("up", detail))
        self._changed.set()

    def disconnected(self, reason: str, *, vendor: VendorError = NO_ANSWER) -> None:
        self.line.append(("down", reason))
        self._changed.set()

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.taken]

    async def until(self, ready: Callable[[], object]) -> None:
        async with within(SOON_S):
            while not ready():
                self._changed.clear()
                await self._changed.wait()


class Hurried(AsyncTasks):
    """Sleeping only lets others run; what was asked for is remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_ms: list[float] = []

    async def sleep(self, delay_ms: float) -> None:
        self.slept_ms.append(delay_ms)
        await asyncio.sleep(0)


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now(self) -> Instant:
        return Instant(self.ms)


@dataclass
class Rig:
    """One channel and the messages it was given."""

    server: FakeTelegram
    bot: Bot
    channel: TelegramChannel
    ear: Ear
    tasks: Hurried
    clock: Hands

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(self.channel.run(self.ear))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, HoldfastError):
                await task


def setup(settings: Mapping[str, object], environment: Mapping[str, str], folder: Path = Path()) -> ChannelSetup:
    return ChannelSetup(
        name="telegram",
        agent=AgentName("ada"),
        settings=settings,
        environment=environment,
        folder=folder,
        clock=Hands(),
        entropy=Dice(),
        tasks=Hurried(),
    )


@asynccontextmanager
async def rig(server: FakeTelegram, bot: Bot, **settings: object) -> AsyncIterator[Rig]:
    table = {"token_env": "TOKEN", "api_url": server.url, **settings}
    made = setup(table, {"TOKEN": bot.token, "HOOK": "hook-secret"})
    assert isinstance(made.tasks, Hurried)
    assert isinstance(made.clock, Hands)
    channel = make_telegram(made)
    try:
        yield Rig(server, bot, channel, Ear(), made.tasks, made.clock)
    finally:
        await channel.close()


def post(chat: Chat | str, text: str = "hello", *, thread: str | None = None, in_reply_to: str = "") -> Post:
    number = chat if isinstance(chat, str) else str(chat.id)
    return Post(
        reply=ReplyId("rep_1"),
        part=0,
        parts=1,
        address=Address(agent=AgentName("ada"), channel="telegram", type="group", chat=number, thread=thread),
        text=text,
        message=MessageId("msg_1"),
        in_reply_to=in_reply_to,
    )
