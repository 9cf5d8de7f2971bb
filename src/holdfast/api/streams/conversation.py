"""A conversation over one WebSocket: the frames of a client, and the chats whose events it receives.

A client receives events of a chat while a message that it sent or followed is unanswered, or while it subscribes.
Without a subscription it receives events of its own messages only.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from msgspec import Struct

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.caller import Caller
from holdfast.api.auth.viewer import Viewer
from holdfast.api.endpoint import Settings
from holdfast.api.request import Hop, decode, origin_by
from holdfast.api.shapes.error_report import error_view
from holdfast.api.streams.frames import LOOK_EVERY_MS, Failed, Frame, State, live_frames, question_of, reply_of
from holdfast.inbox.address import Address, check_part
from holdfast.inbox.mailbox import MailboxView, MessageTrace
from holdfast.inbox.message import UNFINISHED, Accepted, Duplicate, MessageKind, kind_of, refusal
from holdfast.kernel.errors import HoldfastError, InvalidInput, StoreUnavailable
from holdfast.kernel.ids import AgentName, MessageId
from holdfast.kernel.notifier import Event, Feed

CHATS_MAX = 1_000
CHECKED_MAX = 50  # messages that one check looks up at most, regardless of their events


class ClientFrame(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """A frame of the client; `type` is its kind."""


class Auth(ClientFrame, frozen=True, kw_only=True, tag="auth", forbid_unknown_fields=True):
    token: str


class SendMessage(ClientFrame, frozen=True, kw_only=True, tag="send", forbid_unknown_fields=True):
    chat: str
    id: str
    text: str
    agent: str | None = None  # null: the default agent
    sender: str | None = None
    hop: Hop = 0  # the `hop` of the reply that is passed on


class Subscribe(ClientFrame, frozen=True, kw_only=True, tag="subscribe", forbid_unknown_fields=True):
    chat: str
    agent: str | None = None


class Follow(ClientFrame, frozen=True, kw_only=True, tag="follow", forbid_unknown_fields=True):
    """Ask for the state of a message; no state is lost with a connection."""

    message: str


class Ping(ClientFrame, frozen=True, kw_only=True, tag="ping", forbid_unknown_fields=True):
    pass


InFrame: TypeAlias = Auth | SendMessage | Subscribe | Follow | Ping


class Ready(Frame, frozen=True, kw_only=True, tag="ready"):
    scopes: list[str]
    agents: list[str]


class AcceptedFrame(Frame, frozen=True, kw_only=True, tag="accepted"):
    """The message is durable."""

    id: str
    chat: str
    agent: str
    message: str
    queued_behind: int


class Known(Frame, frozen=True, kw_only=True, tag="duplicate"):
    id: str
    chat: str
    agent: str
    message: str
    state: str


class Subscribed(Frame, frozen=True, kw_only=True, tag="subscribed"):
    """Sent at once, and again when a chat that did not exist yet receives its first message."""

    chat: str
    agent: str


class Pong(Frame, frozen=True, kw_only=True, tag="pong"):
    pass


def frame_in(text: str) -> InFrame:
    """Raises `InvalidJson`, `InvalidInput` and `InvalidUnicode`."""
    return cast("InFrame", decode(text.encode("utf-8", "surrogatepass"), cast("type[Any]", InFrame)))


@dataclass
class WatchedChat:
    feed: Feed
    subscribed: bool = False
    # Message to the last approval sent to the client; the message that was looked up last comes last.
    awaited: dict[str, str] = field(default_factory=dict)


class SocketConversation:
    def __init__(
        self,
        caller: Caller,
        viewer: Viewer,
        settings: Settings,
        put: Callable[[Frame], None],
        start: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self._caller = caller
        self._viewer = viewer
        self._tasks = settings.tasks
        self._metrics = settings.metrics
        self._put = put
        self._start = start
        self._chats: dict[str, WatchedChat] = {}  # by mailbox
        self._coming: set[str] = set()  # subscribed addresses that have no mailbox yet

    async def act(self, frame: InFrame) -> None:
        match frame:
            case SendMessage():
                self._caller.require(Scope.SEND)
                await self._send(frame)
            case Subscribe(chat=chat, agent=agent):
                self._caller.require(Scope.READ)
                await self._subscribe(Address(agent=AgentName(self._whom(agent)), channel="http", type="dm", chat=chat))
            case Follow(message=message):
                self._caller.require(Scope.READ)
                self._check_room()
                await self._tell(MessageId(check_part("message", message)))
            case Ping():
                self._put(Pong())
            case Auth():
                raise InvalidInput("this connection is authenticated already")

    def close(self) -> None:
        for chat in self._chats.values():
            chat.feed.close()

    # --- frames of the client

    async def _send(self, frame: SendMessage) -> None:
        self._check_room()
        sender = await self._caller.speak_as(frame.sender, check_part("chat", frame.chat), self._viewer)
        origin = origin_by(self._caller, frame.hop)
        with self._metrics.accept_seconds.time():
            outcome = await self._viewer.accept(
                frame.chat, frame.text, agent=frame.agent, sender=sender, id=frame.id, origin=origin
            )
        place = {"id": frame.id, "chat": frame.chat, "agent": self._whom(frame.agent)}
        match outcome:
            case Accepted(message=message, mailbox=mailbox, queued_behind=behind):
                self._await(mailbox, message)  # before the next await, so that no event is missed
                self._put(AcceptedFrame(**place, message=message, queued_behind=behind))
                if kind_of(frame.text, human=origin.human) is MessageKind.SIGNAL:  # it is answered without an event
                    await self._look(self._chat(mailbox), [message])
            case Duplicate(message=message, state=state):
                self._put(Known(**place, message=message, state=state.value))
                await self._tell(message)
            case _:
                raise refusal(outcome)

    def _whom(self, agent: str | None) -> str:
        return self._viewer.default_agent if agent is None else agent

    def _check_room(self) -> None:
        if len(self._chats) + len(self._coming) >= CHATS_MAX:
            raise InvalidInput(f"{CHATS_MAX} chats are followed over this connection already; use another one")

    async def _subscribe(self, address: Address) -> None:
        self._check_room()
        found = await self._viewer.mailbox(str(address))
        if found is not None:
            self._chat(found.mailbox).subscribed = True
        elif str(address) not in self._coming:
            self._coming.add(str(address))
            self._start(self._until_there(address), "ws-coming")
        self._put(Subscribed(chat=address.chat, agent=address.agent))

    async def _until_there(self, address: Address) -> None:
        """Poll until the address has a mailbox, then subscribe to it and notify the client."""
        while (found := await self._found(address)) is None:
            await self._tasks.sleep(LOOK_EVERY_MS)
        self._coming.discard(str(address))
        self._chat(found.mailbox).subscribed = True
        self._put(Subscribed(chat=address.chat, agent=address.agent))

    async def _found(self, address: Address) -> MailboxView | None:
        """The mailbox; None while it does not exist or the store is unavailable."""
        try:
            return await self._viewer.mailbox(str(address))
        except StoreUnavailable:
            return None

    async def _tell(self, message: MessageId) -> None:
        """Send the current state of a message, and its events from now on."""
        trace = await self._viewer.trace(message)
        if trace.state not in UNFINISHED:
            self._put(reply_of(trace))
            return
        self._put(State(message=message, state=trace.state.value))
        found = await self._viewer.mailbox(trace.address)
        if found is not None:
            self._await(found.mailbox, message)
            self._ask(self._chat(found.mailbox), trace)

    # --- frames to the client

    def _await(self, mailbox: str, message: str) -> None:
        self._chat(mailbox).awaited.setdefault(message, "")

    def _ask(self, chat: WatchedChat, trace: MessageTrace) -> None:
        """Send the approval that a message waits for. An awaited message gets each approval once."""
        asked = question_of(trace, chat.awaited.get(trace.message, ""))
        if asked is not None:
            self._put(asked)
            if trace.message in chat.awaited:
                chat.awaited[trace.message] = asked.approval

    def _chat(self, mailbox: str) -> WatchedChat:
        chat = self._chats.get(mailbox)
        if chat is None:
            chat = self._chats[mailbox] = WatchedChat(self._viewer.listen(mailbox=mailbox))
            self._start(self._pump(mailbox, chat), "ws-chat")
        return chat

    async def _pump(self, mailbox: str, chat: WatchedChat) -> None:
        """Send the events of a chat while it is subscribed or has awaited messages.

        Another process may answer, so the store is also polled, regardless of how many events arrive.
        """
        time = asyncio.get_running_loop().time
        looked_at = time()
        while chat.subscribed or chat.awaited:
            try:
                event = await chat.feed.next_within(LOOK_EVERY_MS)
                if event is not None:
                    await self._tell_of(chat, event)
                if event is None or time() - looked_at >= LOOK_EVERY_MS / 1000:
                    await self._look(chat, list(chat.awaited)[:CHECKED_MAX])
                    looked_at = time()
            except HoldfastError as error:  # too far behind the feed, or the store is busy: resume from durable state
                self._put(Failed(error=error_view(error).error))
                chat.feed.close()
                chat.feed = self._viewer.listen(mailbox=mailbox)
                await self._tasks.sleep(LOOK_EVERY_MS)
        chat.feed.close()
        del self._chats[mailbox]

    async def _tell_of(self, chat: WatchedChat, event: Event) -> None:
        about = set(event.messages)
        if not chat.subscribed:
            about &= chat.awaited.keys()
        frames = live_frames(event)
        if frames is None:
            await self._look(chat, about)
        for frame in frames if frames and about else ():
            self._put(frame)

    async def _look(self, chat: WatchedChat, about: Collection[str]) -> None:
        """Send the final state of messages, or the approvals that they wait for."""
        awaited = chat.awaited.keys() & set(about)
        for message in sorted(about):
            trace = await self._viewer.message(MessageId(message))  # of a chat that the token may read
            if message in awaited and message not in chat.awaited:
                continue  # another task has looked it up and sent the result meanwhile
            if trace.state not in UNFINISHED:
                chat.awaited.pop(message, None)
                self._put(reply_of(trace))
                continue
            if message in awaited:
                chat.awaited[message] = chat.awaited.pop(message)
            self._ask(chat, trace)
