"""A Discord for tests: REST and gateway of version 10 on a loopback socket, for any number of bots.

It behaves as Discord's documentation and discord.py's source say: nothing is sent again unless a session is resumed; a
repeated enforced nonce answers with the first message; `after` pages from the oldest; a guild is shown with the newest
message of each channel; a direct conversation is never listed; a webhook's, bot's or person's
message reaches every bot that sees the channel, its author included.

`faults` are taken in order by the requests whose line (`POST /channels/17/messages`) holds their `on`. What happens on
the gateway is asked for by name: `drop`, `ask_reconnect`, `forget_sessions`, `hold` and `release`, and by
`say(deliver=False)`. Everything that tests call is synchronous but `until`, which waits for the next change.
"""

import asyncio
import json
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

from aiohttp import WSMsgType, web

from tests.platforms import discord_shapes as shapes
from tests.platforms.discord_shapes import DM, TEXT, THREAD, Bot, Guild, Json, Room
from tests.support.patience import within

EPOCH_MS = 1_420_070_400_000
MESSAGE_CONTENT = 1 << 15
DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
EVENTS_KEPT_MAX = 5_000
WAIT_S = 30.0


@dataclass
class Fault:
    on: str
    status: int = 0  # answer with this
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"message": "the words that were sent, quoted", "code": 0}'
    content_type: str = "application/json"
    effect: bool = False  # whether the request takes effect all the same
    cut: bool = False  # close the connection instead of answering
    stall: bool = False  # answer only when the fake is closed


@dataclass(eq=False)
class Session:
    id: str
    bot: Bot
    intents: int
    seq: int = 0
    events: deque[Json] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT_MAX))
    pipe: "Pipe | None" = None


class Pipe:
    """One gateway connection. What is put into it is written in order, by one task."""

    def __init__(self, socket: web.WebSocketResponse, compressed: bool) -> None:
        self.socket = socket
        self._zlib = zlib.compressobj() if compressed else None
        self._waiting: asyncio.Queue[Json | None] = asyncio.Queue()
        self._writer = asyncio.get_running_loop().create_task(self._write())

    def put(self, op: int, data: object = None, **more: object) -> None:
        self._waiting.put_nowait({"op": op, "d": data, "s": None, "t": None, **more})

    def event(self, event: Json) -> None:
        self._waiting.put_nowait(event)

    def end(self, code: int) -> None:
        self._waiting.put_nowait({"close": code})

    def cut(self) -> None:
        """The connection is gone without a word."""
        self._writer.cancel()
        if self.socket._req is not None and self.socket._req.transport is not None:
            self.socket._req.transport.abort()

    async def stop(self) -> None:
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)

    async def _write(self) -> None:
        while (payload := await self._waiting.get()) is not None:
            if "close" in payload:
                await self.socket.close(code=payload["close"])
                return
            text = json.dumps(payload)
            if self._zlib is None:
                await self.socket.send_str(text)
            else:
                await self.socket.send_bytes(self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH))


class FakeDiscord:
    def __init__(self, *, heartbeat_ms: int = 41_250) -> None:
        self.heartbeat_ms = heartbeat_ms
        self.bots: dict[str, Bot] = {}
        self.rooms: dict[str, Room] = {}
        self.guilds: dict[str, Guild] = {}
        self.users: dict[str, Json] = {}
        self.sessions: dict[str, Session] = {}
        self.faults: deque[Fault] = deque()
        self.requests: list[str] = []
        self.posts: list[Json] = []  # the bodies of every request to post, in order
        self.patches: list[Json] = []  # and of those to edit that were done
        self.files: dict[str, bytes] = {}
        self.nonces: dict[tuple[str, str], Json] = {}
        self.enforces_nonce = True
        self.says_goodbye = True  # answers when a gateway connection is closed
        self.goodbyes = 0  # that were said to it and not answered
        self.beats = 0
        self._last_id = 0
        self._held: list[tuple[Session, Json]] | None = None
        self._seen = asyncio.Event()
        self._released = asyncio.Event()

    async def __aenter__(self) -> "FakeDiscord":
        app = web.Application()
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = cast("tuple[str, int]", self._runner.addresses[0])[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.origin}/api/v10"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._released.set()
        for session in self.sessions.values():
            if session.pipe is not None:
                session.pipe.cut()
        await self._runner.cleanup()

    # --- who and where ---------------------------------------------------------------------------------

    def new_id(self) -> str:
        """Ids tell the time, as Discord's do."""
        self._last_id = max(self._last_id + 1, (int(time.time() * 1000) - EPOCH_MS) << 22)
        return str(self._last_id)

    def add_user(self, name: str, *, is_bot: bool = False) -> Json:
        made: Json = {
            "id": self.new_id(),
            "username": name.lower(),
            "global_name": name,
            "discriminator": "0",
            "avatar": None,
            "bot": is_bot,
        }
        self.users[made["id"]] = made
        return made

    def give_role(self, guild: Guild, user: Json, permissions: int) -> None:
        """A role of its own for one member. Bots that are connected hear of it when the guild is shown again."""
        role = self.new_id()
        guild.roles[role] = permissions
        guild.members.setdefault(user["id"], []).append(role)

    def add_bot(self, name: str, token: str | None = None) -> Bot:
        user = self.add_user(name, is_bot=True)
        bot = Bot(token or f"token-of-{name}", user)
        self.bots[bot.token] = bot
        return bot

    def add_guild(self, name: str, *bots: Bot) -> Guild:
        guild = Guild(self.new_id(), name, {bot.id: self.new_id() for bot in bots})
        self.guilds[guild.id] = guild
        return guild

    def add_channel(self, guild: Guild, name: str) -> Room:
        return self._add(Room(self.new_id(), TEXT, name, guild))

    def add_thread(self, parent: Room, name: str) -> Room:
        room = self._add(Room(self.new_id(), THREAD, name, parent.guild, parent.id))
        self._tell(room, "THREAD_CREATE", {**shapes.shown(room), "newly_created": True})
        return room

    def open_dm(self, bot: Bot, user: Json) -> Room:
        return self._add(Room(self.new_id(), DM, recipients=[user], bot=bot))

    def _add(self, room: Room) -> Room:
        self.rooms[room.id] = room
        if room.guild is not None:
            room.guild.rooms.append(room)
        return room

    # --- what people do --------------------------------------------------------------------------------

    def say(
        self,
        room: Room,
        author: Json,
        text: str,
        *,
        mentions: Iterable[Json] = (),
        reply_to: Json | None = None,
        attachments: Iterable[Json] = (),
        deliver: bool = True,
        times: int = 1,
        **more: object,
    ) -> Json:
        """Post a message. Undelivered, it is in the history only; `times` is how often its event is sent."""
        message: Json = {
            "id": self.new_id(),
            "channel_id": room.id,
            "author": author,
            "content": text,
            "timestamp": shapes.now(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": list(mentions),
            "mention_roles": [],
            "attachments": list(attachments),
            "embeds": [],
            "pinned": False,
            "type": 0 if reply_to is None else 19,
            "flags": 0,
            "components": [],
            **more,
        }
        if reply_to is not None:
            message["message_reference"] = {
                "type": 0,
                "message_id": reply_to["id"],
                "channel_id": reply_to["channel_id"],
            }
            message["referenced_message"] = reply_to
        room.messages[message["id"]] = message
        for _ in range(times if deliver else 0):
            self._tell(room, "MESSAGE_CREATE", shapes.for_gateway(room, message))
        self._changed()
        return message

    def edit(self, message: Json, text: str, *, deliver: bool = True) -> None:
        message.update(content=text, edited_timestamp=shapes.now())
        room = self.rooms[message["channel_id"]]
        if deliver:
            self._tell(room, "MESSAGE_UPDATE", shapes.for_gateway(room, message))

    def preview(self, message: Json) -> None:
        """Discord adds a link's preview: an update without an author."""
        room = self.rooms[message["channel_id"]]
        self._tell(room, "MESSAGE_UPDATE", shapes.for_gateway(room, {**message, "embeds": [{"type": "link"}]}))

    def delete(self, *messages: Json) -> None:
        room = self.rooms[messages[0]["channel_id"]]
        ids = [message["id"] for message in messages]
        for message_id in ids:
            del room.messages[message_id]
        where = {"channel_id": room.id, **({"guild_id": room.guild.id} if room.guild else {})}
        if len(ids) == 1:
            self._tell(room, "MESSAGE_DELETE", {"id": ids[0], **where})
        else:
            self._tell(room, "MESSAGE_DELETE_BULK", {"ids": ids, **where})

    def attach(self, name: str, body: bytes, *, size: int | None = None, url: str | None = None) -> Json:
        file_id = self.new_id()
        self.files[f"/attachments/{file_id}/{name}"] = body
        address = url or f"{self.origin}/attachments/{file_id}/{name}"
        length = len(body) if size is None else size
        kind = {"content_type": "text/plain", "url": address, "proxy_url": address}
        return {"id": file_id, "filename": name, "size": length, **kind}

    # --- what goes wrong ---------------------------------------------------------------------------------

    def limit(self, on: str, retry_after: float, *, everywhere: bool = False, times: int = 1) -> None:
        """Answer with 429, as Discord's API does."""
        headers = {
            "Via": "1.1 google",
            "Retry-After": str(max(1, round(retry_after))),
            "X-RateLimit-Scope": "global" if everywhere else "user",
            **({"X-RateLimit-Global": "true"} if everywhere else {}),
        }
        body = {"message": "You are being rate limited.", "retry_after": retry_after, "global": everywhere}
        self.faults.extend([Fault(on, status=429, headers=headers, body=json.dumps(body))] * times)

    def drop(self, bot: Bot | None = None, code: int | None = None) -> None:
        """Close gateway connections with a code, or cut them without a word."""
        for pipe in self._pipes(bot):
            pipe.cut() if code is None else pipe.end(code)

    def ask_reconnect(self, bot: Bot | None = None) -> None:
        for pipe in self._pipes(bot):
            pipe.put(RECONNECT)

    def forget_sessions(self, bot: Bot | None = None) -> None:
        """Nothing can be resumed: what comes back gets an invalid session and must identify anew."""
        for session in [one for one in self.sessions.values() if bot in (None, one.bot)]:
            del self.sessions[session.id]
            if session.pipe is not None:
                session.pipe.put(INVALID, data=False)

    def hold(self) -> None:
        self._held = []

    def release(self, order: Callable[[list[Json]], list[Json]] = list) -> None:
        """Send what was held, in another order. Sequence numbers are given out now."""
        held, self._held = self._held or [], None
        for session in dict.fromkeys(session for session, _ in held):
            for event in order([event for owner, event in held if owner is session]):
                self._send(session, event)

    def _pipes(self, bot: Bot | None) -> list[Pipe]:
        return [one.pipe for one in self.sessions.values() if one.pipe is not None and bot in (None, one.bot)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with within(WAIT_S):
            while not condition():
                self._seen.clear()
                await self._seen.wait()

    def texts(self, room: Room, author: Json) -> list[str]:
        return [one["content"] for one in room.messages.values() if one["author"]["id"] == author["id"]]

    def is_connected(self, bot: Bot) -> bool:
        return bool(self._pipes(bot))

    # --- the gateway -------------------------------------------------------------------------------------

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        fault = self._fault("GET /gateway/")
        if fault is not None:
            return web.Response(status=fault.status)
        socket = web.WebSocketResponse(max_msg_size=0, autoclose=self.says_goodbye)
        await socket.prepare(request)
        pipe = Pipe(socket, request.query.get("compress") == "zlib-stream")
        pipe.put(HELLO, {"heartbeat_interval": self.heartbeat_ms})
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    self._heard(pipe, json.loads(frame.data))
            if not self.says_goodbye:
                self.goodbyes += 1
                self._changed()
                await self._released.wait()
        finally:
            await pipe.stop()
            for session in self.sessions.values():
                if session.pipe is pipe:
                    session.pipe = None
            self._changed()
        return socket

    def _heard(self, pipe: Pipe, payload: Json) -> None:
        match payload["op"]:
            case 1:
                self.beats += 1
                pipe.put(ACK)
            case 2:
                self._identify(pipe, payload["d"])
            case 6:
                self._resume(pipe, payload["d"])
        self._changed()

    def _identify(self, pipe: Pipe, data: Json) -> None:
        bot = self.bots.get(data["token"])
        if bot is None:
            pipe.end(4004)
        elif data["intents"] & MESSAGE_CONTENT and not bot.content_allowed:
            pipe.end(4014)
        else:
            for stale in [one for one in self.sessions.values() if one.bot is bot and one.pipe is None][:-1]:
                del self.sessions[stale.id]
            session = Session(f"session{self.new_id()}", bot, data["intents"], pipe=pipe)
            self.sessions[session.id] = session
            bot.identified += 1
            self._welcome(session)

    def _welcome(self, session: Session) -> None:
        bot = session.bot
        guilds = [guild for guild in self.guilds.values() if bot.id in guild.bots]
        ready = {
            "v": 10,
            "user": bot.user,
            "guilds": [{"id": guild.id, "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self._gateway_url(),
            "session_type": "normal",
            "private_channels": [],
            "application": {"id": bot.id, "flags": 0},
        }
        self._send(session, {"t": "READY", "d": ready})
        for guild in guilds:
            if not guild.is_away:
                self._send(session, {"t": "GUILD_CREATE", "d": shapes.guild_shown(guild, bot)})

    def take_away(self, guild: Guild) -> None:
        """Discord has trouble with a guild, and says so."""
        guild.is_away = True
        for session in self.sessions.values():
            if session.bot.id in guild.bots:
                self._send(session, {"t": "GUILD_DELETE", "d": {"id": guild.id, "unavailable": True}})

    def bring_back(self, guild: Guild) -> None:
        """A guild that was away is there again."""
        guild.is_away = False
        for session in self.sessions.values():
            if session.bot.id in guild.bots:
                self._send(session, {"t": "GUILD_CREATE", "d": shapes.guild_shown(guild, session.bot)})

    def _resume(self, pipe: Pipe, data: Json) -> None:
        session = self.sessions.get(data["session_id"])
        if session is None or session.bot.token != data["token"]:
            pipe.put(INVALID, data=False)
            return
        session.pipe = pipe
        session.bot.resumed += 1
        for event in [event for event in session.events if event["s"] > data["seq"]]:
            pipe.event(event)
        self._send(session, {"t": "RESUMED", "d": {}})

    def _tell(self, room: Room, kind: str, data: Json) -> None:
        for session in self.sessions.values():
            if self._sees(session.bot, room):
                is_blind = not session.intents & MESSAGE_CONTENT and room.type != DM and kind == "MESSAGE_CREATE"
                event = {"t": kind, "d": {**data, "content": ""} if is_blind else data}
                if self._held is None:
                    self._send(session, event)
                else:
                    self._held.append((session, event))

    def _send(self, session: Session, event: Json) -> None:
        session.seq += 1
        numbered = {"op": DISPATCH, "s": session.seq, **event}
        session.events.append(numbered)
        if session.pipe is not None:
            session.pipe.event(numbered)

    def _sees(self, bot: Bot, room: Room) -> bool:
        return room.bot is bot if room.guild is None else bot.id in room.guild.bots and not room.is_hidden

    def _gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/gateway/"

    def _changed(self) -> None:
        self._seen.set()

    # --- REST ----------------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.path in self.files:
            return self._file(request)
        line = f"{request.method} {request.path.removeprefix('/api/v10')}"
        self.requests.append(line)
        fault = self._fault(line)
        answer = await self._act(request, line) if fault is None or fault.effect else web.Response()
        self._changed()
        if fault is None:
            return answer
        if fault.stall:
            await self._released.wait()
        if fault.cut and request.transport is not None:
            request.transport.abort()
        return web.Response(
            status=fault.status or 500, body=fault.body.encode(), headers=fault.headers, content_type=fault.content_type
        )

    def _fault(self, line: str) -> Fault | None:
        found = next((fault for fault in self.faults if fault.on in line), None)
        if found is not None:
            self.faults.remove(found)
        return found

    def _file(self, request: web.Request) -> web.Response:
        fault = self._fault(f"GET {request.path}")
        if fault is not None:
            return web.Response(status=fault.status, headers=fault.headers)
        return web.Response(body=self.files[request.path], content_type="text/plain")

    async def _act(self, request: web.Request, line: str) -> web.Response:
        bot = self.bots.get(request.headers.get("Authorization", "").removeprefix("Bot "))
        if bot is None:
            return shapes.error(401, 0, "401: Unauthorized")
        match line.split("/")[1:]:
            case ["users", "@me"]:
                return shapes.answer(bot.user)
            case ["oauth2", "applications", "@me"]:
                return shapes.answer(shapes.application(bot))
            case ["gateway", "bot"]:
                limits = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
                return shapes.answer({"url": self._gateway_url(), "shards": 1, "session_start_limit": limits})
            case ["channels", room_id, *rest]:
                return await self._channel(request, bot, room_id, rest)
        return self._member(bot, line)

    def _member(self, bot: Bot, line: str) -> web.Response:
        found = re.fullmatch(r"GET /guilds/(\d+)/members/(\d+)", line)
        if found is None:
            return shapes.error(404, 0, "404: Not Found")
        guild, user_id = self.guilds.get(found[1]), found[2]
        if guild is None or bot.id not in guild.bots:
            return shapes.error(403, 50001, "Missing Access")
        if user_id not in self.users:
            return shapes.error(404, 10007, "Unknown Member")
        return shapes.answer(shapes.member_shown(guild, self.users[user_id]))

    async def _channel(self, request: web.Request, bot: Bot, room_id: str, rest: list[str]) -> web.Response:
        room = self.rooms.get(room_id)
        if room is None or not self._sees(bot, room):
            return (
                shapes.error(404, 10003, "Unknown Channel")
                if room is None
                else shapes.error(403, 50001, "Missing Access")
            )
        return await self._in_room(request, bot, room, rest)

    async def _in_room(self, request: web.Request, bot: Bot, room: Room, rest: list[str]) -> web.Response:
        match request.method, rest:
            case "GET", []:
                return shapes.answer(shapes.shown(room))
            case "GET", ["messages"]:
                return shapes.answer(shapes.page(list(room.messages.values()), request.query))
            case "POST", ["messages"]:
                return self._post(bot, room, await request.json())
            case "PATCH" | "DELETE", ["messages", message_id]:
                body = await request.json() if request.method == "PATCH" else None
                return self._change(bot, room.messages.get(message_id), body)
            case "POST", ["typing"]:
                room.typing += 1
                return web.Response(status=204)
        return shapes.error(405, 0, "405: Method Not Allowed")

    def _change(self, bot: Bot, message: Json | None, body: Json | None) -> web.Response:
        """Edit a message, or delete it when there is no body."""
        if message is None:
            return shapes.error(404, 10008, "Unknown Message")
        if message["author"]["id"] != bot.id:
            return shapes.error(403, 50005, "Cannot edit a message authored by another user")
        if body is None:
            self.delete(message)
            return web.Response(status=204)
        if not body.get("content") or len(body["content"]) > 2000:
            return shapes.error(400, 50035, "Invalid Form Body")
        self.patches.append(body)
        self.edit(message, body["content"])
        return shapes.answer(message)

    def _post(self, bot: Bot, room: Room, body: Json) -> web.Response:
        self.posts.append({**body, "channel_id": room.id, "by": bot.id})
        if not body.get("content"):
            return shapes.error(400, 50006, "Cannot send an empty message")
        nonce = body.get("nonce", "")
        if len(body["content"]) > 2000 or len(nonce) > 25:
            return shapes.error(400, 50035, "Invalid Form Body")
        known = self.nonces.get((bot.id, nonce)) if self.enforces_nonce and body.get("enforce_nonce") else None
        if known is not None:
            return shapes.answer(known)
        answered = room.messages.get(body.get("message_reference", {}).get("message_id", ""))
        message = self.say(room, bot.user, body["content"], reply_to=answered, nonce=nonce)
        self.nonces[bot.id, nonce] = message
        return shapes.answer(message)
