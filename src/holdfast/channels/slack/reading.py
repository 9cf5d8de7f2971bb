"""From Slack's events to durable mail.

Rule 1: an event is acknowledged after `Intake.receive` has returned, never before.
Rule 2: a message that cannot be made durable stays at the head of its conversation and is tried again, however long
        that takes. Taking a later one first would move the mark past it, and it would be lost with the process.
Rule 3: after every connecting, each conversation that was read before is read again from shortly before its mark, and
        what comes in meanwhile waits behind that. A conversation never read before starts with what comes in.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeAlias

from slack_sdk.socket_mode.request import SocketModeRequest

from holdfast import log
from holdfast.channels.slack.files import Files
from holdfast.channels.slack.history import Marks, missed
from holdfast.channels.slack.lanes import Lanes
from holdfast.channels.slack.line import Line
from holdfast.channels.slack.message import Heard, Json, Me, heard, part, said
from holdfast.channels.slack.people import People
from holdfast.channels.slack.text import MENTIONS_MAX, mentioned, readable, without_address
from holdfast.channels.slack.web import Failure, Web
from holdfast.core.errors import HoldfastError, Remedy
from holdfast.core.policy import RetryPolicy
from holdfast.ports.channel import ChannelSetup, ChatMessage, Intake

RETRY = RetryPolicy(delay_ms_base=250, delay_ms_max=30_000)
WAITING_MAX = 1_000
TAKEN_MAX = 10_000
DELIVER_S = 2.5  # Slack waits for three seconds, and calls again
FAULT = "a message could not be handled; this is a fault of ours"

Known: TypeAlias = Mapping[str, Marks]  # by chat


class Reading:
    """What one run of the channel hears. Lives across connections, so what waits does not wait for Slack."""

    def __init__(self, setup: ChannelSetup, web: Web, people: People, me: Me, intake: Intake) -> None:
        self._setup = setup
        self._web = web
        self._people = people
        self._files = Files(web)
        self._me = me
        self._intake = intake
        self._lanes = Lanes(setup.tasks, self._broke, waiting_max=WAITING_MAX)
        self._line: Line | None = None
        self._behind: set[str] = set()  # conversations whose reading back waits in their lane
        self._taken: OrderedDict[tuple[str, str], None] = OrderedDict()  # spares what is read back; may be forgotten

    @property
    def is_broken(self) -> bool:
        return self._lanes.is_broken

    def _broke(self) -> None:
        if self._line is not None:
            self._line.end(FAULT)

    async def attend(self, line: Line) -> None:
        """Read back what was missed, then take what comes, until the line is over. Raises what `read_up_to` does."""
        self._line = line
        await self.catch_up()
        while (request := await line.next()) is not None:
            await self._envelope(line, request)

    async def catch_up(self, earlier: Known | None = None) -> Known:
        """Read back from the marks, or from `earlier` ones; the marks as they are. Raises what `read_up_to` does."""
        marks: dict[str, dict[str | None, int]] = {}
        for conversation, (position, _) in (await self._intake.read_up_to(self._me.account)).items():
            chat, _, thread = conversation.partition("/")
            marks.setdefault(chat, {})[thread or None] = position
        for chat, of_chat in marks.items():
            before = (earlier or {}).get(chat, {})
            await self._read_back(chat, {where: min(mark, before.get(where, mark)) for where, mark in of_chat.items()})
        return marks

    async def deliver(self, event: Json) -> bool:
        """Whether it is durable, or nothing to keep. What is not in time stays in its lane, where it is tried again."""
        news = heard(event, self._me)
        if news is None:
            return True
        settled = asyncio.Event()
        durable = False

        async def take() -> None:
            nonlocal durable
            await self._take(news, settled.set)
            durable = True
            settled.set()

        try:
            async with asyncio.timeout(DELIVER_S):
                await self._lanes.put(news.chat, take)
                await settled.wait()
        except TimeoutError:
            log.warning("update.postponed", reason="not durable in time")
        return durable

    async def _envelope(self, line: Line, request: SocketModeRequest) -> None:
        event = part(request.payload, "event") if request.type == "events_api" else {}
        news = heard(event, self._me)
        if news is None:
            await line.acknowledge(request)
            return

        async def take() -> None:
            await self._take(news)
            await line.acknowledge(request)

        await self._lanes.put(news.chat, take)

    async def _read_back(self, chat: str, marks: Marks) -> None:
        if chat in self._behind:
            return
        self._behind.add(chat)

        async def catch_up() -> None:
            self._behind.discard(chat)
            for message in await self._missed(chat, marks):
                news = said(message, chat, self._me)
                if news is not None:
                    await self._take(news)

        await self._lanes.put(chat, catch_up)

    async def _missed(self, chat: str, marks: Marks) -> list[Json]:
        attempt = 0
        while True:
            found = await missed(self._web, chat, marks)
            if not isinstance(found, Failure):
                return found
            if not found.passes:
                log.warning("channel.skipped", account=self._me.account, chat=chat, why=found.code)
                return []
            attempt += 1
            await self._pause(chat, found.code, attempt, found.retry_after_ms)

    async def _take(self, news: Heard, postponed: Callable[[], None] = lambda: None) -> None:
        """Until it is durable, or known not to be kept. `postponed` is told when that takes more than one attempt."""
        key = (news.chat, news.event_id)
        if key in self._taken:
            return
        message = await self._completed(news)
        attempt = 0
        while (wrong := await self._received(message)) is not None:
            postponed()
            attempt += 1
            await self._pause(news.chat, wrong, attempt)
        self._taken[key] = None
        if len(self._taken) > TAKEN_MAX:
            self._taken.popitem(last=False)

    async def _received(self, message: ChatMessage) -> str | None:
        """None once it is durable, or will never be: what nobody can take must not hold up all that follows."""
        try:
            await self._intake.receive(message)
        except HoldfastError as error:
            if error.remedy is not Remedy.CORRECT:
                return error.code
            log.warning("channel.skipped", account=message.account, event_id=message.event_id, why=error.code)
        return None

    async def _completed(self, news: Heard) -> ChatMessage:
        users = mentioned(news.raw)[:MENTIONS_MAX]
        names = await self._people.names(user for user in users if user != self._me.user)
        raw = without_address(news.raw, self._me.user)
        return ChatMessage(
            account=self._me.account,
            event_id=news.event_id,
            chat=news.chat,
            chat_type=news.chat_type,
            thread=news.thread,
            sender=f"{self._me.team}.{news.user}",
            sender_name=news.name or await self._people.name(news.user),
            text=readable(raw, {**names, self._me.user: self._me.name}),
            addressed=news.addressed,
            human=news.human,
            change=news.change,
            of=news.of,
            attachments=await self._files.fetch(news.files),
            position=news.position,
        )

    async def _pause(self, chat: str, why: str, attempt: int, least_ms: int = 0) -> None:
        log.warning("channel.behind", account=self._me.account, chat=chat, failures=attempt, why=why)
        await self._setup.tasks.sleep(max(least_ms, RETRY.delay_ms(attempt, self._setup.entropy.fraction())))

    async def close(self) -> None:
        await self._lanes.close()
