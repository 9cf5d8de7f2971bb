"""From Slack's events to durable mail.

Rule 1: an event is acknowledged after `Intake.receive` has returned, never before.
Rule 2: a message that cannot be made durable stays at the head of its conversation and is tried again, however long
        that takes. Taking a later one first would move the mark past it, and it would be lost with the process.
Rule 3: after every connecting, each conversation that was read before is read again from shortly before its mark, and
        what comes in meanwhile waits behind that. One that was never read is read from where the account last had
        heard everything (attendance.py), once it is listed (survey.py) or something comes in there; at the first start
        ever, it starts with what comes in.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import TypeAlias

from slack_sdk.socket_mode.request import SocketModeRequest

from holdfast.channels.account_watermark import AccountWatermark
from holdfast.channels.slack.chat_queue import ChatQueues, Work
from holdfast.channels.slack.connection import SocketModeConnection
from holdfast.channels.slack.files import SlackFiles
from holdfast.channels.slack.history import Marks, put_back, unheard
from holdfast.channels.slack.message import Heard, Json, SlackIdentity, heard, part, said
from holdfast.channels.slack.people import SlackUsers
from holdfast.channels.slack.survey import survey
from holdfast.channels.slack.text import MENTIONS_MAX, mentioned, readable, without_address
from holdfast.channels.slack.web import SlackFailure, SlackWebApi
from holdfast.inbox.channel import ChannelSetup, Intake
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, Remedy
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.tasks import Task

RETRY = RetryPolicy(delay_ms_base=250, delay_ms_max=30_000)
WAITING_MAX = 1_000
TAKEN_MAX = 10_000
DELIVER_S = 2.5  # Slack waits for three seconds, and calls again
DIRECT = "D"  # what the ids of conversations of two begin with
FAULT = "a message could not be handled; this is a fault of ours"

Known: TypeAlias = Mapping[str, Marks]  # by chat


class SlackReader:
    """What one run of the channel hears. Lives across connections, so what waits does not wait for Slack."""

    def __init__(
        self, setup: ChannelSetup, web: SlackWebApi, people: SlackUsers, me: SlackIdentity, intake: Intake
    ) -> None:
        self._setup = setup
        self._web = web
        self._people = people
        self._files = SlackFiles(web)
        self._me = me
        self._intake = intake
        self._lanes = ChatQueues(setup.tasks, self._broke, waiting_max=WAITING_MAX)
        self._line: SocketModeConnection | None = None
        self._attendance = AccountWatermark(me.account, intake, clock=setup.clock, tasks=setup.tasks)
        self._survey: Task | None = None
        self._is_surveyed = False  # every conversation that Slack lists was asked since the last connecting
        self._is_whole = False  # and it lists all of them
        self._first: int | None = None  # from where people are read whom it does not list, when they are heard again
        self._asked: set[str] = set()  # those that were, or will be
        self._behind: set[str] = set()  # conversations whose reading back waits in their lane
        self._unread = 0  # readings back that are not over
        self._all_read = asyncio.Event()
        self._taken: OrderedDict[tuple[str, str], None] = OrderedDict()  # spares what is read back; may be forgotten

    @property
    def is_broken(self) -> bool:
        return self._lanes.is_broken

    def _broke(self) -> None:
        if self._line is not None:
            self._line.end(FAULT)

    async def attend(self, line: SocketModeConnection) -> None:
        """Read back what was missed, then take what comes, until the line is over. Raises what `read_up_to` does."""
        self._line = line
        await self.catch_up()
        keeping = self._setup.tasks.start(self._attendance.keep(self._hears_all), name="slack attendance")
        try:
            while (request := await line.next()) is not None:
                await self._envelope(line, request)
        finally:
            keeping.cancel()

    def _hears_all(self) -> bool:
        return self._is_surveyed and self._lanes.is_idle

    async def catch_up(self, earlier: Known | None = None) -> Known:
        """Read back from the marks, which are returned. Raises what `read_up_to` does.

        With `earlier` ones, from those: marks that may have been moved past what was missed prove nothing. Where there
        are none, from where the account last had heard everything.
        """
        began = self._setup.clock.now()
        was_whole = self._is_surveyed and self._is_whole
        self._stop_survey()
        marks: dict[str, dict[str | None, int]] = {}
        for conversation, (position, _) in (await self._attendance.resume()).items():
            chat, _, thread = conversation.partition("/")
            marks.setdefault(chat, {})[thread or None] = position
        if was_whole or self._first is None:
            self._first = self._since()  # otherwise the time has moved past what nobody could list
        self._asked = set()
        for chat, of_chat in marks.items():
            since = self._since()
            oldest = of_chat if earlier is None else put_back(of_chat, earlier.get(chat, {}), since)
            await self._read_back(chat, oldest, since=None if None in of_chat else since)
        self._survey = self._setup.tasks.start(self._ask_the_rest(began), name="slack survey")
        return marks

    def _since(self) -> int | None:
        since_ms = self._attendance.since_ms
        return None if since_ms is None else since_ms * 1000 - 1

    def _stop_survey(self) -> None:
        self._is_surveyed = self._is_whole = False
        if self._survey is not None:
            self._survey.cancel()

    async def _ask_the_rest(self, began: int) -> None:
        """The conversations without a mark. When all of them were read, everything said until `began` was heard."""
        since = self._since()
        if since is not None:
            self._is_whole = await survey(self._web, self._until_told, self._read_first)
        while self._unread:
            self._all_read.clear()
            await self._all_read.wait()
        self._is_surveyed = True
        await self._attendance.advance(began)

    async def _read_first(self, chat: str, done: Callable[[], None]) -> None:
        if chat in self._asked:
            done()
        else:
            await self._read_back(chat, {}, since=self._since(), done=done)

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
                await self._put(news.chat, take)
                await settled.wait()
        except TimeoutError:
            log.warning("update.postponed", reason="not durable in time")
        return durable

    async def _envelope(self, line: SocketModeConnection, request: SocketModeRequest) -> None:
        event = part(request.payload, "event") if request.type == "events_api" else {}
        news = heard(event, self._me)
        if news is None:
            await line.acknowledge(request)
            return

        async def take() -> None:
            await self._take(news)
            await line.acknowledge(request)

        await self._put(news.chat, take)

    async def _put(self, chat: str, work: Work) -> None:
        """What comes in waits behind what was missed: taken first, it would be the mark of all that was said before."""
        since = self._first if chat.startswith(DIRECT) else self._since()  # a channel may have just invited the bot
        if since is not None and chat not in self._asked and not (self._is_surveyed and self._is_whole):
            await self._read_back(chat, {}, since=since)
        await self._lanes.put(chat, work)

    async def _read_back(
        self, chat: str, marks: Marks, *, since: int | None, done: Callable[[], None] = lambda: None
    ) -> None:
        await self._lanes.room()  # first: who is cancelled while waiting has promised nothing
        self._asked.add(chat)
        if chat in self._behind:
            done()
            return
        self._behind.add(chat)
        self._unread += 1

        async def catch_up() -> None:
            self._behind.discard(chat)
            found = await self._until_told(lambda: unheard(self._web, chat, marks, since), chat=chat)
            for message in found or []:
                news = said(message, chat, self._me)
                if news is not None:
                    await self._take(news)
            self._unread -= 1
            self._all_read.set()
            done()

        self._lanes.put_now(chat, catch_up)

    async def _until_told(
        self, ask: Callable[[], Awaitable[list[Json] | SlackFailure]], **where: str
    ) -> list[Json] | None:
        """Asked until there is an answer; None when there never will be."""
        attempt = 0
        while True:
            found = await ask()
            if not isinstance(found, SlackFailure):
                return found
            if not found.passes:
                log.warning("channel.skipped", account=self._me.account, why=found.code, **where, **found.vendor.fields)
                return None
            attempt += 1
            await self._pause(found.code, attempt, found.retry_after_ms, **where, **found.vendor.fields)

    async def _take(self, news: Heard, postponed: Callable[[], None] = lambda: None) -> None:
        """Until it is durable, or known not to be kept. `postponed` is told when that takes more than one attempt."""
        key = (news.chat, news.event_id)
        if key in self._taken:
            return
        async with self._files.gate if news.files else nullcontext():
            message = await self._completed(news)
            attempt = 0
            while (wrong := await self._received(message)) is not None:
                postponed()
                attempt += 1
                await self._pause(wrong, attempt, chat=news.chat)
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

    async def _pause(self, why: str, attempt: int, least_ms: int = 0, **where: object) -> None:
        log.warning("channel.behind", account=self._me.account, failures=attempt, why=why, **where)
        await self._setup.tasks.sleep(max(least_ms, RETRY.delay_ms(attempt, self._setup.entropy.fraction())))

    async def close(self) -> None:
        self._stop_survey()
        await self._lanes.close()
