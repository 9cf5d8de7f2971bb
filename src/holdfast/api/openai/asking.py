"""What an OpenAI-compatible request asks: which agent, in which chat, which words; and the durable message it becomes.

Rule 1: `model` is the agent. The chat is named by a header or by `user`; history is ours, so of `messages` the last
        one only is taken, and it must be the user's.
Rule 2: a client that repeats a request repeats its key: `Idempotency-Key`, or sender and body while those have not
        been answered. Their hash stands beside the message until then, and is no part of any id or name. The same
        words said again after an answer, or by somebody else, are another message.
        Requests that come at the same time are looked at one after another, so equal ones are one message.
Rule 3: nobody hangs on a human. A question about a dangerous tool is the answer, and ends the request. The request that
        decides it is answered with what came of the turn that it released.
"""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request

from holdfast.api.auth.access_token import AccessToken
from holdfast.api.endpoint import Settings, caller_of
from holdfast.api.openai.wire import STARTED_AGAIN
from holdfast.api.origin import origin_of
from holdfast.api.request import decode
from holdfast.api.streams.frames import DeltaFrame, HumanAsked, Replied, Restarted, follow_message
from holdfast.inbox.address import sender_of_chat
from holdfast.inbox.message import MessageKind, Origin, accepted_message, kind_of
from holdfast.inbox.message_trace import MessageTrace
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
    """One message. Whatever else a client sends along is passed over."""

    role: str = ""
    content: str | list[Part] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiRequest:
    """One question to one agent."""

    agent: str
    chat: str
    sender: str
    text: str
    key: str  # what makes a repetition the same question; empty when the body does
    body_hash: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the body of a request asks."""

    agent: str
    chat: str  # empty: one of its own
    user: str | None
    text: str


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """The durable message, and a feed from before it."""

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


def chat_of(request: Request, user: str | None) -> str:
    """The chat that a header names, else that of the `user`, else the token's own. Raises `TokenBound`."""
    named = [request.headers[name] for name in CHAT_HEADERS if request.headers.get(name)]
    if named or user:
        return (named or [user or ""])[0]
    token = caller_of(request).token
    return token.binding.usual_chat(f"token-{token.id}")


async def take(request: Request, settings: Settings, body: bytes, question: Question) -> TakenMessage:
    """Make the question durable, or find it when it is being answered already."""
    service = settings.service
    caller = caller_of(request)
    named = request.headers.get(SENDER_HEADER) or question.user or None
    sender = await caller.speak_as(named, question.chat, service)  # empty: it is known with the chat
    asked = OpenAiRequest(
        agent=question.agent,
        chat=question.chat,
        sender=sender,
        text=question.text,
        key=request.headers.get("idempotency-key", ""),
        body_hash=_digest(caller.token.id.encode(), sender.encode(), body),
        origin=origin_of(request),
    )
    wanted = service.new_message()
    feed = service.listen(message=wanted)
    try:
        async with settings.turnstile.alone(repr((asked.agent, asked.chat, asked.key or asked.body_hash))):
            if not asked.chat:
                chat = await _own_chat(asked, caller.token, settings)
                asked = replace(asked, chat=chat, sender=sender or sender_of_chat(chat))
            message = await _accept(asked, settings, wanted)
        if kind_of(asked.text, human=asked.origin.human) is MessageKind.SIGNAL:
            message = await _released(message, settings)
    except BaseException:
        feed.close()
        raise
    if message != wanted:
        feed.close()
        feed = service.listen(message=message)
    return TakenMessage(message, feed)


async def _released(message: MessageId, settings: Settings) -> MessageId:
    """The message whose turn went on because of this one, where the token finds it; else this one."""
    other = (await settings.service.trace(message)).released
    if other is None:
        return message
    try:
        return (await settings.service.trace(other)).message
    except MessageNotFound:
        return message


async def _own_chat(asked: OpenAiRequest, token: AccessToken, settings: Settings) -> str:
    """The chat of a request that names none: that of the same request before, if it is repeated, else a new one."""
    if asked.key:
        return token.binding.new_chat(f"response-{_digest(token.id.encode(), asked.key.encode())}")
    again = await _unanswered(asked, settings)
    if again is not None:
        return (await settings.service.trace(again)).chat
    return token.binding.new_chat(f"response-{settings.service.new_message()}")


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


async def _unanswered(asked: OpenAiRequest, settings: Settings) -> MessageId | None:
    return await settings.service.unanswered(asked.chat, asked.body_hash, agent=asked.agent, channel=CHANNEL)


async def _accept(asked: OpenAiRequest, settings: Settings, wanted: MessageId) -> MessageId:
    service = settings.service
    if not asked.key:
        again = await _unanswered(asked, settings)
        if again is not None:
            return again
    with settings.metrics.accept_seconds.time():
        outcome = await service.accept(
            asked.chat,
            asked.text,
            agent=asked.agent,
            sender=asked.sender,
            id=f"key.{asked.key}" if asked.key else f"request.{wanted}",
            channel=CHANNEL,
            message=wanted,
            origin=asked.origin,
            request="" if asked.key else asked.body_hash,
        )
    return accepted_message(outcome)


def decode_loosely(body: bytes, shape: type[Any]) -> Any:  # noqa: ANN401
    """Clients send fields that we have no use for; what is used is checked."""
    return decode(body, shape)


async def over(taken: TakenMessage, settings: Settings) -> MessageTrace:
    """What became of the message, once that is known or a human is asked."""
    async with aclosing(follow_message(settings.service, taken.message, taken.feed)) as frames:
        async for frame in frames:
            if isinstance(frame, HumanAsked):
                break
    return await settings.service.trace(taken.message)


def text_of(trace: MessageTrace) -> str:
    """The answer: the question that it waits for, or the reply."""
    return trace.awaiting.text if trace.awaiting else trace.reply.text if trace.reply else ""


async def words(taken: TakenMessage, settings: Settings) -> AsyncGenerator[str]:
    """The reply in pieces. What was shown cannot be taken back in this protocol, so one that starts again says so."""
    heard = ""
    async with aclosing(follow_message(settings.service, taken.message, taken.feed)) as frames:
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
