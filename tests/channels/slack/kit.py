"""A mailbox that keeps what it takes, a channel on a fake Slack, and a world of both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from holdfast.channels.slack import SlackChannel
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelSetup, IntakeOutcome
from holdfast.inbox.chat_message import ChatMessage, conversation_of
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import AgentName, MessageId, ReplyId
from holdfast.kernel.machine import SystemClock, SystemEntropy
from holdfast.kernel.ports import Clock, make_id
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.outbox.post import Post
from tests.platforms.slack import Bot, FakeSlack
from tests.support.pace import WAIT_S, HastyTasks
from tests.support.patience import within


@dataclass(eq=False)
class Mailbox:
    """Implements `Intake` with what the real one promises: durable when it returns, each event once, growing marks."""

    taken: list[ChatMessage] = field(default_factory=list)
    verdicts: list[IntakeOutcome] = field(default_factory=list)
    asked: list[ChatMessage] = field(default_factory=list)  # whether or not anything came of it
    clashes: list[ChatMessage] = field(default_factory=list)  # an event that came a second time in other words
    marks: dict[str, tuple[int, str]] = field(default_factory=dict)
    notes: list[tuple[str, int]] = field(default_factory=list)  # every call of `note_read`
    errors: list[HoldfastError] = field(default_factory=list)  # each fails one call
    mark_errors: list[HoldfastError] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)  # by chat: receiving waits for it
    marks_gate: asyncio.Event | None = None
    story: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self, message: ChatMessage) -> IntakeOutcome:
        self.asked.append(message)
        self.changed.set()
        if message.chat in self.gates:
            await self.gates[message.chat].wait()
        if self.errors:
            raise self.errors.pop(0)
        conversation = conversation_of(message.chat, message.thread)
        known = [one for one in self.taken if (one.chat, one.event_id) == (message.chat, message.event_id)]
        self.clashes += [message for one in known if (one.text, one.sender) != (message.text, message.sender)]
        if not known:
            self.taken.append(message)
        if message.position is not None and message.position > self.marks.get(conversation, (0, ""))[0]:
            self.marks[conversation] = (message.position, message.event_id)
        self.verdicts.append(IntakeOutcome.DUPLICATE if known else IntakeOutcome.TAKEN)
        self.changed.set()
        return self.verdicts[-1]

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        if self.marks_gate is not None:
            await self.marks_gate.wait()
        if self.mark_errors:
            raise self.mark_errors.pop(0)
        return dict(self.marks)

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        self.notes.append((conversation, position))
        if position > self.marks.get(conversation, (0, ""))[0]:
            self.marks[conversation] = (position, event_id)
        self.changed.set()

    async def moved(self, old_chat: str, new_chat: str, *, new_type: str) -> None:
        raise AssertionError("Slack's channels keep their ids")

    def connected(self, detail: str = "") -> None:
        self.story.append("connected")
        self.changed.set()

    def disconnected(self, reason: str, *, vendor: VendorError = NO_ANSWER) -> None:
        self.story.append(f"disconnected: {reason}")
        self.changed.set()

    def shut(self, chat: str) -> None:
        self.gates[chat] = asyncio.Event()

    def open(self, chat: str) -> None:
        self.gates.pop(chat).set()

    def texts(self, chat: str | None = None) -> list[str]:
        return [one.text for one in self.taken if chat in (None, one.chat)]

    async def until(self, is_so: Callable[[], object]) -> None:
        async with within(WAIT_S):
            while not is_so():
                self.changed.clear()
                await self.changed.wait()

    async def until_texts(self, *texts: str, chat: str | None = None) -> None:
        await self.until(lambda: len(self.texts(chat)) >= len(texts))
        assert self.texts(chat) == list(texts)


def setup_of(
    settings: Mapping[str, object], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> ChannelSetup:
    return ChannelSetup(
        name="slack",
        agent=AgentName("ada"),
        settings=settings,
        environment=environment or {},
        folder=folder or Path(),
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=HastyTasks(),
    )


def channel_of(slack: FakeSlack, bot: Bot, clock: Clock | None = None) -> SlackChannel:
    setup = replace(setup_of({}), clock=clock or SystemClock())
    return SlackChannel(setup, bot.token, slack.api_url, app_token=bot.app_token)


def tasks_of(channel: SlackChannel) -> HastyTasks:
    return cast("HastyTasks", channel._setup.tasks)


def slept(channel: SlackChannel) -> list[float]:
    return tasks_of(channel).pauses_ms


@asynccontextmanager
async def running(
    slack: FakeSlack, bot: Bot, mailbox: Mailbox, clock: Clock | None = None
) -> AsyncIterator[SlackChannel]:
    """A channel that is connected; ended as the runtime ends it."""
    channel = channel_of(slack, bot, clock)
    connects = bot.connects
    task = asyncio.ensure_future(channel.run(mailbox))
    task.add_done_callback(lambda _: mailbox.changed.set())
    try:
        await mailbox.until(lambda: bot.connects > connects or task.done())
        if not task.done():
            yield channel
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await channel.close()


def post_to(chat: str, text: str = "hello", *, thread: str | None = None, doubtful: bool = False, n: int = 1) -> Post:
    kind = "dm" if chat.startswith("D") else "group"
    return Post(
        reply=ReplyId(make_id("rep", SystemClock().now(), n)),
        part=0,
        parts=1,
        address=Address(agent=AgentName("ada"), channel="slack", type=kind, chat=chat, thread=thread),
        text=text,
        message=MessageId("msg_1"),
        doubtful=doubtful,
    )
