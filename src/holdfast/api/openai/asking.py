"""OpenAI-compatible requests: the agent, chat and text of a request, and the durable message that it becomes.

Rule 1: `model` is the agent. A header or `user` names the chat. Holdfast keeps the history, so only the last of
        `messages` is used, and it must be the user's.
Rule 2: a client that repeats a request repeats its key: `Idempotency-Key`, or sender and body until the request is
        answered. Until then their hash is stored beside the message; it is part of no id or name. The same text sent
        again after an answer, or by another sender, is another message.
        Equal requests that arrive at the same time are handled one after another, so they become one message.
Rule 3: no request waits for a human. A question about a dangerous tool is the answer and ends the request. The request
        that decides it is answered with the outcome of the turn that it released.
"""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.api.auth.viewer import Sending, Viewer
from holdfast.api.endpoint import HttpCall
from holdfast.api.openai.wire import STARTED_AGAIN
from holdfast.api.request import origin_of
from holdfast.api.streams.frames import DeltaFrame, HumanAsked, Replied, Restarted, follow_message
from holdfast.inbox.address import sender_of_chat
from holdfast.inbox.mailbox import MessageTrace
from holdfast.inbox.message import MessageKind, accepted_message, kind_of
from holdfast.kernel.errors import InvalidInput, MessageNotFound
from holdfast.kernel.ids import MessageId
from holdfast.kernel.notifier import Feed

CHANNEL = "openai"
CHAT_HEADERS = ("x-holdfast-chat", "x-hermes-session-key", "x-openclaw-session-key")
SENDER_HEADER = "x-holdfast-sender"
Name = Annotated[str, Meta(min_length=1, max_length=512)]


class Part(Struct, frozen=True):
    type: str
    text: str = ""


class InputItem(Struct, frozen=True):
    """One message. Other fields are ignored."""

    role: str = ""
    content: str | list[Part] | None = None


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """The durable message, and a feed that was opened before it."""

    message: MessageId
    feed: Feed


def last_words(items: list[InputItem]) -> str:
    """The text of the last message, which must be the user's. Raises `InvalidInput`."""
    if not items:
        raise InvalidInput("there is no message to answer")
    last = items[-1]
    if last.role != "user":
        raise InvalidInput(f"the last message must have the role user, not {last.role[:40]!r}: history is kept here")
    if isinstance(last.content, str):
        return last.content
    odd = next((part.type for part in last.content or () if part.type not in {"text", "input_text"}), None)
    if odd is not None:
        raise InvalidInput(f"a part of type {odd[:40]!r} cannot be read; send text")
    return "\n".join(part.text for part in last.content or ())


def chat_of(call: HttpCall, user: str | None) -> str:
    """The chat that a header names, else that of `user`, else the token's usual one. Raises `TokenBound`."""
    headers = call.request.headers
    named = [headers[name] for name in CHAT_HEADERS if headers.get(name)]
    if named or user:
        return (named or [user or ""])[0]
    token = call.caller.token
    return token.binding.usual_chat(f"token-{token.id}")


async def take(call: HttpCall, body: bytes, *, agent: str, chat: str, user: str | None, text: str) -> TakenMessage:
    """Make a question durable, or find it if it is already being answered. An empty chat is a new one."""
    viewer, caller, headers = call.viewer, call.caller, call.request.headers
    named = headers.get(SENDER_HEADER) or user or None
    sender = await caller.speak_as(named, chat, viewer)  # empty: it follows from the chat
    key, origin = headers.get("idempotency-key", ""), origin_of(call)
    body_hash = _digest(caller.token.id.encode(), sender.encode(), body)
    wanted = viewer.new_message()
    how = Sending(agent=agent, channel=CHANNEL, message=wanted, origin=origin)
    how |= {"id": f"key.{key}"} if key else {"id": f"request.{wanted}", "request": body_hash}
    feed = viewer.listen(message=wanted)
    try:
        async with call.settings.request_lock.alone(repr((agent, chat, key or body_hash))):
            message = None if key else await viewer.unanswered(chat, body_hash, agent=agent, channel=CHANNEL)
            if message is None:
                chat = chat or _new_chat(viewer, key)
                how["sender"] = sender or sender_of_chat(chat)
                with call.settings.metrics.accept_seconds.time():
                    outcome = await viewer.accept(chat, text, **how)
                message = accepted_message(outcome)
        if kind_of(text, human=origin.human) is MessageKind.SIGNAL:
            message = await _released(message, viewer)
    except BaseException:
        feed.close()
        raise
    if message != wanted:
        feed.close()
        feed = viewer.listen(message=message)
    return TakenMessage(message, feed)


async def _released(message: MessageId, viewer: Viewer) -> MessageId:
    """The message whose turn this one released, if the token finds it; else this one."""
    other = (await viewer.trace(message)).released
    if other is None:
        return message
    try:
        return (await viewer.trace(other)).message
    except MessageNotFound:
        return message


def _new_chat(viewer: Viewer, key: str) -> str:
    """The chat of a request that names none. A repeated key names the same chat."""
    token = viewer.token
    own = _digest(token.id.encode(), key.encode()) if key else viewer.new_message()
    return token.binding.new_chat(f"response-{own}")


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


async def over(taken: TakenMessage, viewer: Viewer) -> MessageTrace:
    """The message once it has ended or waits for a human."""
    async with aclosing(follow_message(viewer, taken.message, taken.feed)) as frames:
        async for frame in frames:
            if isinstance(frame, HumanAsked):
                break
    return await viewer.trace(taken.message)


def text_of(trace: MessageTrace) -> str:
    """The text of the answer: the pending question, or the reply."""
    return trace.awaiting.text if trace.awaiting else trace.reply.text if trace.reply else ""


async def words(taken: TakenMessage, viewer: Viewer) -> AsyncGenerator[str]:
    """The reply in pieces. The protocol cannot retract text, so a reply that starts again says so."""
    heard = ""
    async with aclosing(follow_message(viewer, taken.message, taken.feed)) as frames:
        async for frame in frames:
            match frame:
                case DeltaFrame(text=text):
                    heard += text
                    yield text
                case Restarted() if heard:
                    heard = ""
                    yield STARTED_AGAIN
                case HumanAsked(text=text):
                    yield text
                    return
                case Replied(text=text):
                    rest = text[len(heard) :] if text.startswith(heard) else f"{STARTED_AGAIN}{text}"
                    if rest:
                        yield rest
