"""A Slack for tests: the Web API and socket mode on a loopback socket, for any number of apps.

It behaves as Slack's documentation and the SDK's source say: an event goes to one of an app's connections; one that is
not acknowledged is sent again, three times at most, with `retry_attempt` and `retry_reason`; `conversations.history`
pages from the newest and has no replies; a mention comes as `message` and as `app_mention`; what a bot posts reaches
every app in the channel, its own included. Nothing refuses a repeated post.

`faults` are taken in order by the requests of the method (or file) that `on` names. What happens on the socket is asked
for by name: `drop`, `ask_reconnect`, `hold`, `release`, `redeliver`, and by `say(deliver=False)`. Everything that tests
call is synchronous but `until`, which waits for the next change.
"""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self, cast

from aiohttp import WSMsgType, web

from tests.support.patience import within

Json = dict[str, Any]
RETRIES_MAX = 3
WAIT_S = 30.0
PAGE_DEFAULT = 100


@dataclass
class Fault:
    on: str  # a method, as in chat.postMessage, or "file"
    status: int = 200
    error: str = ""  # Slack's word
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None  # instead of Slack's JSON
    content_type: str = "application/json"
    effect: bool = False  # whether the request takes effect all the same
    cut: bool = False  # close the connection instead of answering
    stall: bool = False  # answer only when the fake is closed
    bot: "Bot | None" = None  # only for this one
    times: int = 1


@dataclass(eq=False)
class Envelope:
    id: str
    payload: Json
    retries: int = 0

    def frame(self) -> str:
        reason = "timeout" if self.retries else ""
        return json.dumps(
            {
                "envelope_id": self.id,
                "type": "events_api",
                "accepts_response_payload": False,
                "payload": self.payload,
                "retry_attempt": self.retries,
                "retry_reason": reason,
            }
        )


@dataclass(eq=False)
class Pipe:
    """One WebSocket of one app."""

    bot: "Bot"
    request: web.Request
    frames: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)


@dataclass(eq=False)
class Bot:
    name: str
    team: str
    user: str
    bot_id: str
    app: str
    token: str
    app_token: str
    pipes: list[Pipe] = field(default_factory=list)
    sent: dict[str, Envelope] = field(default_factory=dict)  # without an acknowledgement yet
    acknowledged: list[str] = field(default_factory=list)  # the ids of envelopes, in order
    connects: int = 0
    missed: int = 0
    doubled: bool = False  # every envelope is sent twice
    held: list[Envelope] | None = None
    may_list: set[str] = field(default_factory=lambda: {"public_channel", "private_channel", "mpim", "im"})


@dataclass(eq=False)
class Room:
    id: str
    kind: str  # channel, group, mpim, im
    bots: list[Bot]
    messages: dict[str, Json] = field(default_factory=dict)
    archived: bool = False
    creator: str = ""


class FakeSlack:
    def __init__(self, *, keeps_missed: bool = False, retry_s: float | None = None) -> None:
        """`keeps_missed`: events for an app without a connection wait for it. `retry_s`: when Slack sends again."""
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, Json]] = []
        self.rooms: dict[str, Room] = {}
        self.people: dict[str, Json] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.tickets: dict[str, Bot] = {}
        self._bots: list[Bot] = []
        self._keeps_missed = keeps_missed
        self._retry_s = retry_s
        self._micros = 0
        self._n = 0
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0

    # --- the server --------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        return f"{self.url}/api"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self._serve)
        app.router.add_get("/link", self._link)
        app.router.add_get("/files-pri/{name}", self._file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        for bot in self._bots:
            self.drop(bot)
        if self._runner is not None:
            await self._runner.cleanup()

    async def until(self, is_so: Callable[[], object]) -> None:
        async with within(WAIT_S):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

    # --- what tests do -----------------------------------------------------------------------------

    def bot(self, name: str = "muse", *, team: str = "T1") -> Bot:
        n = self._next()
        app = f"A{n}"
        token, app_token = f"xoxb-{n}-{name}-secret", f"xapp-1-{app}-{name}-secret"
        bot = Bot(name, team, user=f"U{n}BOT", bot_id=f"B{n}", app=app, token=token, app_token=app_token)
        self._bots.append(bot)
        self.people[bot.user] = {"id": bot.user, "name": name, "is_bot": True, "profile": {"display_name": name}}
        return bot

    def person(self, name: str, user: str = "") -> str:
        user = user or f"U{self._next()}"
        profile = {"display_name": name, "real_name": f"{name} Real"}
        ranks = {"is_admin": False, "is_owner": False, "is_primary_owner": False}
        about = {"id": user, "name": name.lower(), "team_id": "T1", "is_bot": False, "profile": profile}
        self.people[user] = {**about, **ranks}
        return user

    def room(self, *bots: Bot, kind: str = "channel", id: str = "") -> str:
        letter = {"im": "D", "group": "G", "mpim": "G"}.get(kind, "C")
        room = Room(id or f"{letter}{self._next()}", kind, list(bots))
        self.rooms[room.id] = room
        return room.id

    def upload(self, name: str, body: bytes, mimetype: str = "text/plain", **other: object) -> Json:
        self.files[name] = (mimetype, body)
        url = f"{self.url}/files-pri/{name}"
        file = {"id": f"F{self._next()}", "name": name, "mimetype": mimetype, "size": len(body), "mode": "hosted"}
        return {**file, "url_private": url, "url_private_download": url, **other}

    def say(
        self,
        room: str,
        user: str,
        text: str,
        *,
        thread: str | None = None,
        files: Iterable[Json] = (),
        deliver: bool = True,
        **other: object,
    ) -> str:
        """A person's message. `other` is put into it as it is: subtype, bot_id."""
        message: Json = {"type": "message", "user": user, "text": text, "team": "T1"}
        message |= {"client_msg_id": str(uuid.UUID(int=self._next())), **other}
        if files := list(files):
            message |= {"files": files, "upload": False, "subtype": "file_share"}
        return self._add(self.rooms[room], message, thread, deliver=deliver)

    def edit(self, room: str, ts: str, text: str, *, by_author: bool = True) -> None:
        before = self.rooms[room].messages[ts]
        edited = {"edited": {"user": before["user"], "ts": self._ts()}} if by_author else {}
        after = {**before, "text": text, **edited}
        self.rooms[room].messages[ts] = after
        self._tell(room, {"subtype": "message_changed", "message": after, "previous_message": before})

    def delete(self, room: str, ts: str) -> None:
        before = self.rooms[room].messages.pop(ts)
        self._tell(room, {"subtype": "message_deleted", "deleted_ts": ts, "previous_message": before})

    def posts(self, room: str) -> list[Json]:
        """What bots posted there, in order."""
        return [message for message in self.rooms[room].messages.values() if "app_id" in message]

    def drop(self, bot: Bot) -> None:
        """Cut its connections without a word."""
        for pipe in bot.pipes:
            if pipe.request.transport is not None:
                pipe.request.transport.abort()
        bot.pipes.clear()

    def ask_reconnect(self, bot: Bot, reason: str = "refresh_requested") -> None:
        frame = json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}})
        for pipe in bot.pipes:
            pipe.frames.put_nowait(frame)
            pipe.frames.put_nowait(None)
        bot.pipes.clear()

    def hold(self, bot: Bot) -> None:
        """Keep what would be sent, until `release`."""
        bot.held = []

    def release(self, bot: Bot, order: Callable[[list[Envelope]], list[Envelope]] = list) -> None:
        held, bot.held = bot.held or [], None
        for envelope in order(held):
            self._send(bot, envelope)

    def redeliver(self, bot: Bot) -> None:
        """Send again what was not acknowledged, as Slack does after three seconds."""
        for envelope in list(bot.sent.values()):
            self._retry(bot, envelope)

    # --- events ------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._n += 1
        return self._n

    def _ts(self) -> str:
        self._micros = max(self._micros + 1, time.time_ns() // 1000)
        return f"{self._micros // 1_000_000}.{self._micros % 1_000_000:06d}"

    def _add(self, room: Room, message: Json, thread: str | None, *, deliver: bool = True) -> str:
        ts = message["ts"] = self._ts()
        if thread is not None:
            parent = room.messages.get(thread, {})
            parent |= {"thread_ts": thread, "reply_count": parent.get("reply_count", 0) + 1, "latest_reply": ts}
            message["thread_ts"] = thread
        room.messages[ts] = message
        if deliver:
            self._announce(room, message)
        self._changed.set()
        return ts

    def _announce(self, room: Room, message: Json) -> None:
        ts = message["ts"]
        whole = {key: value for key, value in message.items() if key != "metadata"}
        for bot in room.bots:
            self._deliver(bot, {**whole, "channel": room.id, "channel_type": room.kind, "event_ts": ts})
            if f"<@{bot.user}" in message["text"] and room.kind != "im" and not message.get("bot_id"):
                plain = {key: value for key, value in whole.items() if key != "subtype"}
                self._deliver(bot, {**plain, "type": "app_mention", "channel": room.id, "event_ts": ts})

    def _tell(self, room: str, change: Json) -> None:
        place = self.rooms[room]
        ts = self._ts()
        event = {"type": "message", "hidden": True, "channel": room, "channel_type": place.kind, "ts": ts, **change}
        for bot in place.bots:
            self._deliver(bot, {**event, "event_ts": ts})

    def _deliver(self, bot: Bot, event: Json) -> None:
        payload = {
            "token": "verification",
            "team_id": bot.team,
            "api_app_id": bot.app,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{self._next()}",
            "event_time": int(time.time()),
            "authorizations": [{"team_id": bot.team, "user_id": bot.user, "is_bot": True}],
        }
        envelope = Envelope(str(uuid.UUID(int=self._next())), payload)
        if bot.held is not None:
            bot.held.append(envelope)
        else:
            self._send(bot, envelope)

    def _send(self, bot: Bot, envelope: Envelope) -> None:
        if not bot.pipes and not self._keeps_missed:
            bot.missed += 1
            return
        bot.sent[envelope.id] = envelope
        if bot.pipes:
            pipe = bot.pipes[envelope.retries % len(bot.pipes)]
            for _ in range(1 + bot.doubled):
                pipe.frames.put_nowait(envelope.frame())
        if self._retry_s is not None:
            asyncio.get_running_loop().call_later(self._retry_s, self._retry, bot, envelope)

    def _retry(self, bot: Bot, envelope: Envelope) -> None:
        if envelope.id not in bot.sent or self._closing.is_set():
            return
        if envelope.retries >= RETRIES_MAX:
            del bot.sent[envelope.id]
            return
        envelope.retries += 1
        self._send(bot, envelope)

    # --- socket mode -------------------------------------------------------------------------------

    async def _link(self, request: web.Request) -> web.StreamResponse:
        bot = self.tickets.pop(request.query.get("ticket", ""), None)
        if bot is None:
            return web.Response(status=403)
        socket = web.WebSocketResponse(autoping=True, timeout=1.0)
        await socket.prepare(request)
        pipe = Pipe(bot, request)
        hello = {"type": "hello", "num_connections": len(bot.pipes) + 1, "connection_info": {"app_id": bot.app}}
        await socket.send_str(json.dumps({**hello, "debug_info": {"host": "applink-1", "build_number": 1}}))
        bot.pipes.append(pipe)
        bot.connects += 1
        self._changed.set()
        for envelope in list(bot.sent.values()) if self._keeps_missed else []:
            pipe.frames.put_nowait(envelope.frame())
        writing = asyncio.ensure_future(self._write(socket, pipe))
        try:
            await self._read(socket, bot)
        finally:
            writing.cancel()
            if pipe in bot.pipes:
                bot.pipes.remove(pipe)
            self._changed.set()
        return socket

    async def _write(self, socket: web.WebSocketResponse, pipe: Pipe) -> None:
        with contextlib.suppress(ConnectionError):
            while (frame := await pipe.frames.get()) is not None:
                await socket.send_str(frame)

    async def _read(self, socket: web.WebSocketResponse, bot: Bot) -> None:
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            answer = json.loads(message.data)
            bot.acknowledged.append(answer["envelope_id"])
            bot.sent.pop(answer["envelope_id"], None)
            self._changed.set()

    # --- the Web API -------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        params: Json = dict(request.query)
        if request.content_type == "application/json":
            params |= await request.json()
        elif request.can_read_body:
            params |= {key: str(value) for key, value in (await request.post()).items()}
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        bot = next((one for one in self._bots if token in (one.token, one.app_token)), None)
        self.requests.append((method, params))
        fault = self._fault(method, bot)
        if fault is None or fault.effect:
            answer = self._answer(method, params, token, bot)
        self._changed.set()
        return web.json_response(answer) if fault is None else await self._failing(fault, request)

    def _fault(self, on: str, bot: Bot | None) -> Fault | None:
        fault = next((one for one in self.faults if one.on == on and one.bot in (None, bot)), None)
        if fault is not None:
            fault.times -= 1
            if fault.times <= 0:
                self.faults.remove(fault)
        return fault

    async def _failing(self, fault: Fault, request: web.Request) -> web.Response:
        if fault.stall:
            await self._closing.wait()
        if (fault.cut or fault.stall) and request.transport is not None:
            request.transport.abort()
        body = json.dumps({"ok": False, "error": fault.error}) if fault.body is None else fault.body
        return web.Response(status=fault.status, text=body, content_type=fault.content_type, headers=fault.headers)

    def _answer(self, method: str, params: Json, token: str, bot: Bot | None) -> Json:
        if bot is None:
            return {"ok": False, "error": "invalid_auth"}
        if (method == "apps.connections.open") != (token == bot.app_token):
            return {"ok": False, "error": "not_allowed_token_type"}
        handler = cast("Callable[[Bot, Json], Json] | None", getattr(self, f"_{method.replace('.', '_')}", None))
        return {"ok": False, "error": "unknown_method"} if handler is None else handler(bot, params)

    def _auth_test(self, bot: Bot, params: Json) -> Json:
        ids = {"team_id": bot.team, "user_id": bot.user, "bot_id": bot.bot_id}
        return {
            "ok": True,
            "url": f"{self.url}/",
            "team": "Team",
            "user": bot.name,
            **ids,
            "is_enterprise_install": False,
        }

    def _apps_connections_open(self, bot: Bot, params: Json) -> Json:
        ticket = f"ticket-{self._next()}"
        self.tickets[ticket] = bot
        return {"ok": True, "url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}&app_id={bot.app}"}

    def _chat_postMessage(self, bot: Bot, params: Json) -> Json:  # noqa: N802 - Slack's name
        room = self.rooms.get(params.get("channel", ""))
        if room is None or (error := self._closed_to(room, bot)):
            return {"ok": False, "error": "channel_not_found" if room is None else error}
        if not params.get("text"):
            return {"ok": False, "error": "no_text"}
        message: Json = {"type": "message", "user": bot.user, "bot_id": bot.bot_id, "app_id": bot.app}
        message |= {"text": params["text"], "team": bot.team, "bot_profile": {"id": bot.bot_id, "name": bot.name}}
        if "metadata" in params:
            message["metadata"] = params["metadata"]
        ts = self._add(room, message, params.get("thread_ts"))
        return {"ok": True, "channel": room.id, "ts": ts, "message": message}

    def _chat_update(self, bot: Bot, params: Json) -> Json:
        message, error = self._own(bot, params, "cant_update_message")
        if error or not params.get("text"):
            return {"ok": False, "error": error or "no_text"}
        self.edit(params["channel"], message["ts"], params["text"])
        return {"ok": True, "channel": params["channel"], "ts": message["ts"], "text": params["text"]}

    def _chat_delete(self, bot: Bot, params: Json) -> Json:
        message, error = self._own(bot, params, "cant_delete_message")
        if error:
            return {"ok": False, "error": error}
        self.delete(params["channel"], message["ts"])
        return {"ok": True, "channel": params["channel"], "ts": message["ts"]}

    def _own(self, bot: Bot, params: Json, refusal: str) -> tuple[Json, str]:
        """The bot's message that is to be changed, or Slack's word for why not."""
        room = self.rooms.get(params.get("channel", ""))
        if room is None or (error := self._closed_to(room, bot)):
            return {}, "channel_not_found" if room is None else error
        message = room.messages.get(params.get("ts", ""))
        if message is None:
            return {}, "message_not_found"
        return message, "" if message.get("bot_id") == bot.bot_id else refusal

    def _closed_to(self, room: Room, bot: Bot) -> str:
        if bot not in room.bots:
            return "not_in_channel"
        return "is_archived" if room.archived else ""

    def _conversations_history(self, bot: Bot, params: Json) -> Json:
        def is_shown(message: Json) -> bool:
            is_top = message.get("thread_ts", message["ts"]) == message["ts"]
            return is_top or message.get("subtype") == "thread_broadcast"

        return self._page(bot, params, is_shown, newest_first=True)

    def _conversations_replies(self, bot: Bot, params: Json) -> Json:
        room = self.rooms.get(params.get("channel", ""))
        if room is not None and params["ts"] not in room.messages:
            return {"ok": False, "error": "thread_not_found"}
        return self._page(
            bot, params, lambda one: params["ts"] in (one["ts"], one.get("thread_ts")), newest_first=False
        )

    def _page(self, bot: Bot, params: Json, is_shown: Callable[[Json], bool], *, newest_first: bool) -> Json:
        room = self.rooms.get(params.get("channel", ""))
        if room is None or bot not in room.bots:
            return {"ok": False, "error": "channel_not_found" if room is None else "not_in_channel"}
        oldest, latest = params.get("oldest", "0"), params.get("latest", "9" * 12)
        chosen = [one for one in room.messages.values() if is_shown(one) and float(oldest) < float(one["ts"])]
        chosen = [one for one in chosen if float(one["ts"]) < float(latest)]
        if newest_first:
            chosen.reverse()
        elif params["ts"] not in {one["ts"] for one in chosen}:
            chosen.insert(0, room.messages[params["ts"]])  # the first message is included, independent of `oldest`
        start, limit = int(params.get("cursor") or 0), int(params.get("limit") or PAGE_DEFAULT)
        end = start + limit
        cursor = str(end) if end < len(chosen) else ""
        hidden = set() if params.get("include_all_metadata") in ("1", "true", True) else {"metadata"}
        page = [{key: value for key, value in one.items() if key not in hidden} for one in chosen[start:end]]
        more = {"has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}
        return {"ok": True, "messages": page, **more}

    def _conversations_info(self, bot: Bot, params: Json) -> Json:
        room = self.rooms.get(params.get("channel", ""))
        if room is None:
            return {"ok": False, "error": "channel_not_found"}
        about = {"id": room.id, f"is_{room.kind}": True, "is_member": bot in room.bots, "creator": room.creator}
        return {"ok": True, "channel": about}

    def _users_conversations(self, bot: Bot, params: Json) -> Json:
        kinds = {"public_channel": "channel", "private_channel": "group", "mpim": "mpim", "im": "im"}
        wanted = params.get("types", "public_channel").split(",")
        if set(wanted) - bot.may_list:
            return {"ok": False, "error": "missing_scope", "needed": "im:read", "provided": "chat:write"}
        rooms = [one for one in self.rooms.values() if bot in one.bots and one.kind in {kinds[kind] for kind in wanted}]
        if params.get("exclude_archived") == "true":
            rooms = [one for one in rooms if not one.archived]
        start, limit = int(params.get("cursor") or 0), int(params.get("limit") or PAGE_DEFAULT)
        cursor = str(start + limit) if start + limit < len(rooms) else ""
        page = [{"id": one.id, f"is_{one.kind}": True, "is_archived": one.archived} for one in rooms]
        return {"ok": True, "channels": page[start : start + limit], "response_metadata": {"next_cursor": cursor}}

    def _users_info(self, bot: Bot, params: Json) -> Json:
        user = self.people.get(params.get("user", ""))
        return {"ok": False, "error": "user_not_found"} if user is None else {"ok": True, "user": user}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        bot = next((one for one in self._bots if one.token == token), None)
        name = request.match_info["name"]
        self.requests.append(("file", {"name": name, "token": token}))
        if (fault := self._fault("file", bot)) is not None:
            return await self._failing(fault, request)
        if bot is None or name not in self.files:
            return web.Response(status=302, headers={"Location": f"{self.url}/login"})
        mimetype, body = self.files[name]
        return web.Response(body=body, content_type=mimetype)
