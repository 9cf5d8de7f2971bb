"""A Telegram for the tests: the Bot API over a real socket, for many bots at once.

It keeps updates until an offset confirms them, gives them again until then, and lets one poller per token live, as
Telegram does. A test speaks for the people (`say`, `edit`, `hand_over`, `migrate`), reads what the bots posted, and may
arrange faults: by name of the method, one after the other (`bot.fail`), or by chance (`fault_for`).

It runs on the event loop that starts it and knows nothing of the gateway, which may be another process.
"""

import asyncio
import json
import math
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

from tests.support.patience import within

Json: TypeAlias = dict[str, Any]
SOON_S = 20.0  # longer than any answer takes
TEXT_UNITS_MAX = 4096
PATH = re.compile(r"/(file/)?bot([^/]+)/(.+)\Z")
ENTITY = re.compile(r"(?<!\S)(?P<bot_command>/\w+(?:@\w+)?)|(?P<mention>@\w{3,})")


# --- faults ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refuse:
    """Answered as Telegram refuses; nothing was done."""

    status: int
    description: str
    retry_after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """The connection is cut, before or after the deed."""

    after: bool


@dataclass(frozen=True)
class Page:
    """What a gateway in front of Telegram shows, before or after the deed."""

    status: int = 502
    body: str = "<html>Bad Gateway</html>"
    after: bool = False

    def shown(self) -> web.Response:
        headers = {"Location": "/elsewhere"} if 300 <= self.status < 400 else {}
        return web.Response(status=self.status, text=self.body, content_type="text/html", headers=headers)


@dataclass(frozen=True)
class Hold:
    """Stands there until the gate opens; then all is as usual."""

    gate: asyncio.Event
    reached: asyncio.Event = field(default_factory=asyncio.Event)


Fault: TypeAlias = Refuse | Drop | Page | Hold


class Refused(Exception):
    def __init__(
        self, status: int, description: str, headers: Mapping[str, str] | None = None, **parameters: int
    ) -> None:
        super().__init__(description)
        self.headers = headers
        self.body = {"ok": False, "error_code": status, "description": description}
        if parameters:
            self.body["parameters"] = parameters
        self.status = status


@dataclass(frozen=True)
class Rate:
    """So many messages to one chat in so many seconds."""

    messages: int
    per_s: float


# --- bots and chats --------------------------------------------------------------------------------


@dataclass(eq=False)
class Bot:
    id: int
    token: str
    username: str
    pending: list[Json] = field(default_factory=list)  # not confirmed
    confirmed: list[int] = field(default_factory=list)
    calls: list[tuple[str, Json]] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    arrange: Callable[[list[Json]], list[Json]] | None = None  # what a poll is given of what is pending
    webhook: Json = field(default_factory=dict)
    allowed: Sequence[str] = ()
    polls: int = 0  # ever begun; only the newest lives
    waiting: int = 0  # polls that stand there now
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _next_update: int = 0

    def fail(self, method: str, *faults: Fault) -> None:
        """What becomes of the next calls of the method, each in turn. Files are fetched by the method `file`."""
        self.faults[method.lower()].extend(faults)

    def push(self, update: Json, *, kind: str | None = None) -> Json:
        """Queue an update; without a kind it is as strange as the test likes."""
        if kind is not None and self.allowed and kind not in self.allowed:
            return {}
        self._next_update += 1
        made = {"update_id": self.id * 1000 + self._next_update, **update}
        self.pending.append(made)
        self.stir()
        return made

    def confirm(self, offset: int) -> None:
        known = [update for update in self.pending if update["update_id"] < offset]
        self.confirmed += [update["update_id"] for update in known]
        self.pending = [update for update in self.pending if update not in known]

    def stir(self) -> None:
        self._stirred.set()

    async def stirred(self) -> None:
        self._stirred.clear()
        await self._stirred.wait()

    def called(self, method: str) -> list[Json]:
        return [form for name, form in self.calls if name == method.lower()]


@dataclass(eq=False)
class Chat:
    id: int
    type: str
    title: str = ""
    bots: list[Bot] = field(default_factory=list)
    topics: set[int] = field(default_factory=set)
    blocked_by: set[int] = field(default_factory=set)  # bots that may no longer post here
    messages: list[Json] = field(default_factory=list)  # everybody's, in order
    moved_to: int | None = None
    bots_hear_bots: bool = False
    statuses: dict[int, str] = field(default_factory=dict)  # of members who are more, or less, than that
    _sent_at: deque[float] = field(default_factory=deque)

    def shown(self) -> Json:
        return {"id": self.id, "type": self.type, **({"title": self.title} if self.title else {})}

    def posted(self, bot: Bot | None = None) -> list[Json]:
        """What bots posted, or one of them."""
        return [said for said in self.messages if "bot" in said and bot in (None, said["bot"])]

    def texts(self, bot: Bot | None = None) -> list[str]:
        return [said["text"] for said in self.posted(bot)]

    def wait_s(self, rate: Rate, now: float) -> int:
        """How long a bot must wait before it may post; 0 when it may, which counts."""
        while self._sent_at and now - self._sent_at[0] >= rate.per_s:
            self._sent_at.popleft()
        if len(self._sent_at) >= rate.messages:
            return max(1, math.ceil(self._sent_at[0] + rate.per_s - now))
        self._sent_at.append(now)
        return 0


@dataclass(frozen=True)
class User:
    id: int
    first_name: str
    username: str = ""
    is_bot: bool = False

    def shown(self) -> Json:
        return {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name, "username": self.username}


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def entities(text: str) -> list[Json]:
    """Mentions and commands, as Telegram finds them, in UTF-16 units."""
    return [
        {"type": found.lastgroup, "offset": units(text[: found.start()]), "length": units(found[0])}
        for found in ENTITY.finditer(text)
    ]


# --- the platform ----------------------------------------------------------------------------------


class FakeTelegram:
    """Use as `async with`; `url` is its address."""

    def __init__(self) -> None:
        self.bots: dict[str, Bot] = {}
        self.chats: dict[int, Chat] = {}  # but private ones
        self.files: dict[str, bytes] = {}
        self.sizes: dict[str, int] = {}  # what is claimed of them
        self.rate: Rate | None = None
        self.fault_for: Callable[[Bot, str], Fault | None] = lambda _bot, _method: None
        self.url = ""
        self._private: dict[tuple[int, int], Chat] = {}
        self._changed = asyncio.Event()
        self._ids = 100

    async def __aenter__(self) -> "FakeTelegram":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        server = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        """As an outage: everything is kept, and `start(port)` goes on with it."""
        await self._runner.cleanup()

    async def until(self, ready: Callable[[], object]) -> None:
        """Wait for something that calls of the bots bring about."""
        async with within(SOON_S):
            while not ready():
                self._changed.clear()
                await self._changed.wait()

    # --- who there is

    def bot(self, username: str) -> Bot:
        number = self._number()
        made = Bot(id=number, token=f"{number}:fake-{username}", username=username)
        self.bots[made.token] = made
        return made

    def user(self, name: str, *, is_bot: bool = False) -> User:
        return User(self._number(), name, name.lower(), is_bot)

    def private(self, bot: Bot, user: User) -> Chat:
        """The user's own chat with the bot. Its id is the user's, so chats with several bots share it."""
        return self._private.setdefault((bot.id, user.id), Chat(user.id, "private", bots=[bot]))

    def group(self, *bots: Bot, type: str = "supergroup", title: str = "Crew", topics: Sequence[int] = ()) -> Chat:
        number = -self._number() if type == "group" else -1_000_000_000_000 - self._number()
        return self._add(Chat(number, type, title=title, bots=list(bots), topics=set(topics)))

    # --- what people do

    def say(
        self,
        chat: Chat,
        user: User | None,
        text: str = "",
        *,
        thread: int | None = None,
        reply_to: Json | None = None,
        kind: str = "message",
        **more: Any,
    ) -> Json:
        """Post as the user, and tell the chat's bots. `more` are fields of the message."""
        said: Json = {"message_id": self._message_id(chat), "date": int(time.time()), "chat": chat.shown(), **more}
        if user is not None:
            said["from"] = user.shown()
        if text:
            said |= {"text": text, "entities": more.get("entities", entities(text))}
        if thread is not None:
            said |= {"message_thread_id": thread, "is_topic_message": True}
        if reply_to is not None:
            said["reply_to_message"] = public(reply_to)
        chat.messages.append(said)
        self._tell(chat, {kind: said}, kind)
        return said

    def edit(self, chat: Chat, message: Json, text: str, *, kind: str = "edited_message") -> Json:
        edited = {**message, "text": text, "entities": entities(text), "edit_date": int(time.time())}
        self._tell(chat, {kind: edited}, kind)
        return edited

    def hand_over(
        self, chat: Chat, user: User, kind: str, body: bytes, *, caption: str = "", size: int | None = None, **more: Any
    ) -> Json:
        """A file of that kind (photo, document, voice, ...). `size` is what Telegram claims."""
        file_id = f"file-{self._number()}"
        self.files[file_id] = body
        media: Json = {"file_id": file_id, "file_unique_id": file_id, **more}
        media["file_size"] = self.sizes[file_id] = len(body) if size is None else size
        fields: Json = {kind: [{**media, "file_id": "small", "file_size": 1}, media] if kind == "photo" else media}
        if caption:
            fields |= {"caption": caption, "caption_entities": entities(caption)}
        return self.say(chat, user, **fields)

    def migrate(self, chat: Chat) -> Chat:
        """The group becomes a supergroup: both tell it, and the old id is refused from now on."""
        new = self.group(*chat.bots, title=chat.title)
        chat.moved_to = new.id
        owner = User(1, "Owner")
        self.say(chat, owner, migrate_to_chat_id=new.id)
        self.say(new, owner, migrate_from_chat_id=chat.id)
        return new

    async def call_hook(self, bot: Bot, call: Callable[[Mapping[str, str], bytes], Any] | None = None) -> list[int]:
        """Call the webhook with everything pending, in order, until one call is not answered with 2xx."""
        statuses: list[int] = []
        while bot.pending:
            headers = {"X-Telegram-Bot-Api-Secret-Token": bot.webhook.get("secret_token", "")}
            body = json.dumps(bot.pending[0]).encode()
            statuses.append(await (call or self._post(bot))(headers, body))
            if not 200 <= statuses[-1] < 300:
                break
            bot.confirm(bot.pending[0]["update_id"] + 1)
        return statuses

    def _post(self, bot: Bot) -> Callable[[Mapping[str, str], bytes], Any]:
        async def call(headers: Mapping[str, str], body: bytes) -> int:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    bot.webhook["url"], data=body, headers={**headers, "Content-Type": "application/json"}
                ) as response,
            ):
                return response.status

        return call

    # --- bookkeeping

    def _number(self) -> int:
        self._ids += 1
        return self._ids

    def _add(self, chat: Chat) -> Chat:
        self.chats[chat.id] = chat
        return chat

    def _message_id(self, chat: Chat) -> int:
        return max((said["message_id"] for said in chat.messages), default=0) + 1

    def _tell(self, chat: Chat, update: Json, kind: str, *, but: Bot | None = None) -> None:
        for bot in chat.bots:
            if bot is not but:
                bot.push({name: public(message) for name, message in update.items()}, kind=kind)
        self._changed.set()

    # --- the Bot API

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        found = PATH.match(request.path)
        bot = self.bots.get(found[2]) if found else None
        if found is None or bot is None:
            return web.json_response({"ok": False, "error_code": 401, "description": "Unauthorized"}, status=401)
        method = "file" if found[1] else found[3].lower()
        form: Json = dict(await request.post())
        bot.calls.append((method, form))
        self._changed.set()
        fault = bot.faults[method].popleft() if bot.faults[method] else self.fault_for(bot, method)
        try:
            return await self._with_fault(request, bot, found[3] if found[1] else method, form, fault)
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status, headers=refused.headers)
        finally:
            self._changed.set()

    async def _with_fault(
        self, request: web.BaseRequest, bot: Bot, what: str, form: Json, fault: Fault | None
    ) -> web.StreamResponse:
        match fault:
            case Refuse(status, description, retry_after, headers):
                parameters = {} if retry_after is None else {"retry_after": retry_after}
                raise Refused(status, description, headers, **parameters)
            case Drop(after=False):
                return cut_off(request)
            case Page(after=False):
                return fault.shown()
            case Hold(gate, reached):
                reached.set()
                await gate.wait()
        answer = await self._done(bot, what, form)
        match fault:
            case Drop():
                return cut_off(request)
            case Page():
                return fault.shown()
        return answer

    async def _done(self, bot: Bot, what: str, form: Json) -> web.StreamResponse:
        if what in self.files:
            return web.Response(body=self.files[what])
        deed = getattr(self, f"_do_{what}", None)
        if deed is None:
            raise Refused(404, "Not Found")
        return web.json_response({"ok": True, "result": await deed(bot, form)})

    async def _do_getme(self, bot: Bot, _form: Json) -> Json:
        return {"id": bot.id, "is_bot": True, "first_name": bot.username, "username": bot.username}

    async def _do_getupdates(self, bot: Bot, form: Json) -> list[Json]:
        if bot.webhook:
            raise Refused(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook")
        bot.allowed = json.loads(form.get("allowed_updates", "[]")) or bot.allowed
        bot.confirm(int(form.get("offset", 0)))
        bot.polls += 1
        mine = bot.polls
        bot.stir()  # an older poll ends here
        try:
            bot.waiting += 1
            async with asyncio.timeout(int(form.get("timeout", 0))):
                while not bot.pending and bot.polls == mine:
                    await bot.stirred()
        except TimeoutError:
            return []
        finally:
            bot.waiting -= 1
        if bot.polls != mine:
            what = "terminated by other getUpdates request; make sure that only one bot instance is running"
            raise Refused(409, f"Conflict: {what}")
        batch = bot.pending[: int(form.get("limit", 100))]
        return bot.arrange(batch) if bot.arrange else batch

    async def _do_sendmessage(self, bot: Bot, form: Json) -> Json:
        chat, thread = self._target(bot, form), int(form.get("message_thread_id", 0))
        text = form.get("text", "")
        if not text.strip():
            raise Refused(400, "Bad Request: message text is empty")
        if units(text) > TEXT_UNITS_MAX:
            raise Refused(400, "Bad Request: message is too long")
        wait_s = chat.wait_s(self.rate, asyncio.get_running_loop().time()) if self.rate else 0
        if wait_s:
            raise Refused(429, f"Too Many Requests: retry after {wait_s}", retry_after=wait_s)
        said = {"message_id": self._message_id(chat), "date": int(time.time()), "chat": chat.shown(), "text": text}
        said |= {"from": User(bot.id, bot.username, bot.username, is_bot=True).shown(), "bot": bot}
        if thread:
            said |= {"message_thread_id": thread, "is_topic_message": True}
        if "reply_parameters" in form:
            said["quotes"] = json.loads(form["reply_parameters"])
        chat.messages.append(said)
        if chat.bots_hear_bots:
            self._tell(chat, {"message": {**said, "entities": entities(text)}}, "message", but=bot)
        return public(said)

    async def _do_editmessagetext(self, bot: Bot, form: Json) -> Json:
        said = self._own(bot, form, "edit")
        if not form.get("text", "").strip():
            raise Refused(400, "Bad Request: message text is empty")
        if form["text"] == said["text"]:
            what = "specified new message content and reply markup are exactly the same as a current content"
            raise Refused(400, f"Bad Request: message is not modified: {what} and reply markup of the message")
        said |= {"text": form["text"], "edit_date": int(time.time())}
        return public(said)

    async def _do_getchatmember(self, bot: Bot, form: Json) -> Json:
        chat, user = self._target(bot, form), int(form["user_id"])
        if chat.type not in {"group", "supergroup", "channel"} or user < 0:
            raise Refused(400, "Bad Request: PARTICIPANT_ID_INVALID")
        shown = {"id": user, "is_bot": False, "first_name": "Somebody"}
        status = chat.statuses.get(user, "member")
        return {"status": status, "user": shown, **({"is_anonymous": False} if status == "creator" else {})}

    async def _do_deletemessage(self, bot: Bot, form: Json) -> bool:
        said = self._own(bot, form, "delete")
        self._target(bot, form).messages.remove(said)
        return True

    def _own(self, bot: Bot, form: Json, what: str) -> Json:
        """The bot's message that is to be changed. Edits count for the limits as messages do."""
        chat, number = self._target(bot, form), int(form["message_id"])
        wait_s = chat.wait_s(self.rate, asyncio.get_running_loop().time()) if self.rate else 0
        if wait_s:
            raise Refused(429, f"Too Many Requests: retry after {wait_s}", retry_after=wait_s)
        found = next((said for said in chat.posted(bot) if said["message_id"] == number), None)
        if found is None:
            raise Refused(400, f"Bad Request: message to {what} not found")
        return found

    async def _do_sendchataction(self, bot: Bot, form: Json) -> bool:
        self._target(bot, form)
        return True

    async def _do_setwebhook(self, bot: Bot, form: Json) -> bool:
        bot.webhook = form if form.get("url") else {}
        bot.allowed = json.loads(form.get("allowed_updates", "[]")) or bot.allowed
        return self._dropped(bot, form)

    async def _do_deletewebhook(self, bot: Bot, form: Json) -> bool:
        bot.webhook = {}
        return self._dropped(bot, form)

    async def _do_getwebhookinfo(self, bot: Bot, _form: Json) -> Json:
        return {"url": bot.webhook.get("url", ""), "pending_update_count": len(bot.pending)}

    async def _do_getfile(self, _bot: Bot, form: Json) -> Json:
        size = self.sizes.get(form["file_id"])
        if size is None:
            raise Refused(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        return {"file_id": form["file_id"], "file_path": form["file_id"], "file_size": size}

    def _dropped(self, bot: Bot, form: Json) -> bool:
        if form.get("drop_pending_updates", "false").lower() == "true":
            bot.pending.clear()
        return True

    def _target(self, bot: Bot, form: Json) -> Chat:
        number = int(form["chat_id"])
        chat = self._private.get((bot.id, number)) or self.chats.get(number)
        if chat is None or bot not in chat.bots:
            raise Refused(400, "Bad Request: chat not found")
        if chat.moved_to is not None:
            what = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refused(400, what, migrate_to_chat_id=chat.moved_to)
        if bot.id in chat.blocked_by:
            raise Refused(403, "Forbidden: bot was blocked by the user")
        if form.get("message_thread_id") and int(form["message_thread_id"]) not in chat.topics:
            raise Refused(400, "Bad Request: message thread not found")
        return chat


def public(message: Json) -> Json:
    """A message without what only the tests know of it."""
    return {name: value for name, value in message.items() if name not in ("bot", "quotes")}


def cut_off(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    return web.Response()
