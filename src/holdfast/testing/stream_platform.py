"""A platform without redelivery: each event is sent once, to the connections that exist, and kept in a history.

A bot that was disconnected fetches the events after its stored watermarks (D2). Every node connects for itself, so most
events arrive twice. Connections fail and break; a chat may get a new id, as a Telegram group that becomes a supergroup;
some messages have attachments, some of them with the same bytes.

Rule 1: the channel takes one event after the other, in the order of positions, over all chats of the account.
Rule 2: it receives events from the moment it connects, and only then fetches the missed ones, so that none is lost
        between. An event that it takes twice is a duplicate.
Rule 3: an exception of the intake ends the connection; the next one begins at the watermarks.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apsw

from holdfast.channels.receiving import WHOLE, AccountWatermark
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, Intake, IntakeOutcome
from holdfast.inbox.chat_message import Attachment, ChatMessage, hash_of
from holdfast.kernel.errors import ChannelFailed, HoldfastError
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ports import Clock, Tasks
from holdfast.outbox.post import NotSent, Post, SendOutcome
from holdfast.sessions.command_rights import Rank
from holdfast.testing.chats import ChatServer, FakeChat
from holdfast.testing.clock import START_MS
from holdfast.testing.node import is_dead
from holdfast.testing.platform import SentMessage
from holdfast.testing.rows import read_accepted, read_tables
from holdfast.testing.workload import ADMINS, FILLER, HORIZON_MS, Chat, Say, mark_of

CHANNEL = "room"
AGENT = AgentName("fern")
ACCOUNT = "room:1"
FIRST_STREAMED = 200  # the first number of messages on this platform
SAID_MAX = 8
REFUSES = 0.15  # of all attempts to connect
BREAKS_S = 4.0  # a connection lasts for about this long
IDLE_S = 31.0  # after so long without events the channel advances the account's watermark
LAG_S_MAX = 0.3
FILES = (b"a picture of a cat", b"a list of things to buy")
POSITIONS_PER_MS = 1_000
STRANGER = "eve"
COMMANDS = ("/new", "/delete")
GONE = "the chat has another id now"


@dataclass(frozen=True, slots=True)
class StreamChat(Chat):
    """A chat of this platform. A refused message has a durable row."""

    durably: bool = True

    @property
    def address(self) -> Address:
        return Address(agent=AgentName(self.agent), channel=CHANNEL, type=self.type, chat=self.name)


DEN, HALL, NEW_HALL = (
    StreamChat(AGENT, "dm", "den"),
    StreamChat(AGENT, "group", "hall"),
    StreamChat(AGENT, "group", "newhall"),
)
PEOPLE = {"den": ("ada",), "hall": ("ada", "bob", STRANGER)}


@dataclass(frozen=True, slots=True)
class Spoken:
    """One event of the platform's history: a message, or a chat's change to a new id."""

    position: int
    say: Say
    file: bytes | None = None
    moved_to: str = ""

    @property
    def chat(self) -> str:
        return self.say.chat.name

    @property
    def said_at_ms(self) -> int:
        return self.position // POSITIONS_PER_MS


@dataclass(slots=True)
class StreamServer:
    """The platform's history, its connections, and the outcomes that the bot's processes reported."""

    history: list[Spoken] = field(default_factory=list)
    queues: list[asyncio.Queue[Spoken]] = field(default_factory=list)
    sent: dict[str, SentMessage] = field(default_factory=dict)  # by event id; without the messages of strangers
    spoken: dict[str, Spoken] = field(default_factory=dict)  # by event id
    passed_over: set[str] = field(default_factory=set)  # watermarks that passed a message that was not accepted
    moved: bool = False
    breaks: int = 0
    fetched: int = 0

    def speak(self, say: Say, *, file: bytes | None = None, moved_to: str = "") -> None:
        now_s = asyncio.get_running_loop().time()
        newest = self.history[-1].position if self.history else 0
        said_at_ms = START_MS + int(now_s * 1000)
        spoken = Spoken(max(newest + 1, said_at_ms * POSITIONS_PER_MS), say, file, moved_to)
        self.history.append(spoken)
        self.spoken[say.event_id] = spoken
        self.moved = self.moved or bool(moved_to)
        if not moved_to and say.sender != STRANGER:
            self.sent[say.event_id] = SentMessage(say, now_s)
        for queue in self.queues:
            queue.put_nowait(spoken)

    def after(self, marks: Mapping[str, tuple[int, str]], since_ms: int | None) -> list[Spoken]:
        """The events after the watermarks; in a chat without one, the events since `since_ms`."""
        first = None if since_ms is None else since_ms * POSITIONS_PER_MS - 1
        found = []
        for one in self.history:
            mark = marks.get(one.chat, (first, ""))[0]
            if mark is not None and one.position > mark:
                found.append(one)
        self.fetched += len(found)
        return found

    def expected(self, rows: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]]) -> list[SentMessage]:
        """The messages that have to be in a mailbox: all since the account's first start, and those accepted before."""
        first = next((int(mark["event_id"]) for mark in marks if is_whole(mark)), None)
        kept = {row["event_id"] for row in rows if row["account"] == ACCOUNT}
        return [
            sent
            for event_id, sent in self.sent.items()
            if event_id in kept or (first is not None and self.spoken[event_id].said_at_ms > first)
        ]

    def took(self, spoken: Spoken, verdict: IntakeOutcome) -> None:
        sent = self.sent.get(spoken.say.event_id)
        if sent is None:
            return
        sent.attempts += 1
        if verdict in {IntakeOutcome.STRANGER, IntakeOutcome.IGNORED}:
            sent.wrong.append(f"was {verdict.value}")
        if sent.acked_at is None:
            sent.acked_at = asyncio.get_running_loop().time()


class StreamPeople:
    """The people who talk on this platform."""

    def __init__(self, seed: int | str, server: StreamServer) -> None:
        self._chance = random.Random(f"{seed}/area/rooms/said")
        self._server = server

    async def act(self) -> None:
        moves_at = self._chance.randrange(SAID_MAX) if self._chance.random() < 0.5 else -1
        for n in range(SAID_MAX):
            await asyncio.sleep(self._chance.random() * 2 * HORIZON_MS / 1000 / SAID_MAX)
            if n == moves_at:
                self._move(FIRST_STREAMED + n)
            else:
                self._speak(FIRST_STREAMED + n)

    def _move(self, n: int) -> None:
        """A person writes to the bot, and the chat gets another id before the bot can answer."""
        said = self._say(n, HALL, "ada", mark_of(n))
        self._server.speak(replace(said, addressed=True))
        self._server.speak(self._say(FIRST_STREAMED + SAID_MAX, HALL, "ada", "(moved)"), moved_to=NEW_HALL.name)

    def _speak(self, n: int) -> None:
        rng = self._chance
        chat = rng.choice((DEN, HALL, HALL))
        sender = rng.choice(PEOPLE[chat.name])
        if self._server.moved and chat is HALL:
            chat = NEW_HALL
        text = f"{mark_of(n)} {FILLER[: rng.choice((0, 20, 60))]}".strip()
        file = rng.choice(FILES) if rng.random() < 0.5 else None
        if rng.random() < 0.15 and sender != STRANGER:
            text, file = rng.choice(COMMANDS), None
        self._server.speak(self._say(n, chat, sender, f"{text}{_named(file)}"), file=file)

    def _say(self, n: int, chat: StreamChat, sender: str, text: str) -> Say:
        addressed = chat.type == "dm" or self._chance.random() < 0.7
        return Say(n=n, at_ms=0, chat=chat, sender=sender, text=text, addressed=addressed, human=True, conflicts=False)


def is_whole(mark: Mapping[str, Any]) -> bool:
    """Whether a watermark is the account's own, which records its first start."""
    return bool(mark["account"] == ACCOUNT and mark["conversation"] == WHOLE)


def _named(file: bytes | None) -> str:
    """The line of text about an attachment; a second implementation, apart from the intake."""
    if file is None:
        return ""
    return f"\n[attached: {file_name(file)}, image/png, {len(file)} bytes, sha256 {hash_of(file)[:16]}]"


def file_name(file: bytes) -> str:
    return f"{FILES.index(file)}.png"


class FakeStream(FakeChat):
    """Implements `Channel`: one node's connection to the platform."""

    def __init__(
        self,
        seed: int | str,
        stream: StreamServer,
        server: ChatServer,
        capabilities: ChannelCapabilities,
        healed: Callable[[], bool],
        *,
        node: str,
        clock: Clock,
        tasks: Tasks,
        observe: Callable[[], apsw.Connection],
    ) -> None:
        super().__init__(seed, server, capabilities, healed)
        self._observe = observe
        self._stream = stream
        self._clock = clock
        self._tasks = tasks
        self._chance = random.Random(f"{seed}/area/rooms/{node}")

    async def run(self, intake: Intake) -> None:
        if not self._healed() and self._chance.random() < REFUSES:
            await asyncio.sleep(self._chance.random() * LAG_S_MAX)
            raise ChannelFailed("the platform refuses connections")
        queue: asyncio.Queue[Spoken] = asyncio.Queue()
        self._stream.queues.append(queue)  # before the watermarks are read, so that no message is missed
        intake.connected(ACCOUNT)
        try:
            await self._listen(queue, intake)
        except HoldfastError as error:
            raise ChannelFailed(f"the connection is given up: {error.code}") from error
        finally:
            if not is_dead():
                self._stream.queues.remove(queue)

    async def _listen(self, queue: asyncio.Queue[Spoken], intake: Intake) -> None:
        watermark = AccountWatermark(ACCOUNT, intake, clock=self._clock, tasks=self._tasks)
        marks = await watermark.resume()
        await asyncio.sleep(self._chance.random() * LAG_S_MAX)
        for missed in self._stream.after(marks, watermark.since_ms):
            await self._take(missed, intake)
        until_s = self._now() + self._chance.random() * 2 * BREAKS_S
        while self._healed() or self._now() < until_s:
            try:
                async with asyncio.timeout(IDLE_S if self._healed() else max(0.0, until_s - self._now())):
                    spoken = await queue.get()
            except TimeoutError:
                if queue.empty():
                    await watermark.advance(self._clock.now())
                continue
            await self._take(spoken, intake)
        self._stream.breaks += 1
        raise ChannelFailed("the connection broke")

    async def _take(self, spoken: Spoken, intake: Intake) -> None:
        await asyncio.sleep(self._chance.random() * LAG_S_MAX / 10)
        say = spoken.say
        if spoken.moved_to:
            await intake.moved(spoken.chat, spoken.moved_to, new_type=say.chat.type)
            await intake.note_read(ACCOUNT, spoken.chat, spoken.position, say.event_id)
            return
        self._stream.took(spoken, await intake.receive(_message(spoken)))
        self._look_at_marks()

    def _look_at_marks(self) -> None:
        """Check during the history that no watermark passed a message that is in no mailbox."""
        accepted, watermarks = read_accepted(self._observe()), read_tables(self._observe(), "watermark")["watermark"]
        taken = {row["event_id"] for row in accepted if row["account"] == ACCOUNT}
        marks = {row["conversation"]: row["position"] for row in watermarks if not is_whole(row)}
        for sent in self._stream.expected(accepted, watermarks):
            one = self._stream.spoken[sent.say.event_id]
            if one.position <= marks.get(one.chat, 0) and sent.say.event_id not in taken:
                self._stream.passed_over.add(f"{one.chat} was read up to {marks[one.chat]} without {sent.say.event_id}")

    async def rank(self, message: ChatMessage) -> Rank:
        """The platform knows its admins, and sometimes gives no answer."""
        await asyncio.sleep(self._chance.random() * LAG_S_MAX)
        if not self._healed() and self._chance.random() < REFUSES:
            return Rank.UNKNOWN
        return Rank.ADMIN if message.sender in ADMINS else Rank.MEMBER

    async def send(self, post: Post) -> SendOutcome:
        if self._stream.moved and post.address.chat == HALL.name:
            return NotSent(GONE, retry_after_ms=300)
        return await super().send(post)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _message(spoken: Spoken) -> ChatMessage:
    say = spoken.say
    files = () if spoken.file is None else (spoken.file,)
    return ChatMessage(
        account=ACCOUNT,
        event_id=say.event_id,
        chat=say.chat.name,
        chat_type=say.chat.type,
        sender=say.sender,
        text=say.text.partition("\n[attached")[0],
        addressed=say.addressed,
        human=say.human,
        position=spoken.position,
        attachments=tuple(
            Attachment(name=file_name(file), media_type="image/png", size=len(file), body=file) for file in files
        ),
    )


def allowed() -> Iterator[str]:
    """The senders with access."""
    yield from (f"{CHANNEL}:{name}" for names in PEOPLE.values() for name in names if name != STRANGER)
