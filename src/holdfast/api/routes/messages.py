"""The routes of messages: send one, read its state and its attachments, and stream its reply.

The sender of an attachment chose its bytes, name and type. A browser never shows it as a page of this server: it is a
download, its type is proven by its bytes or omitted, and its headers forbid scripts.
"""

from collections.abc import AsyncGenerator
from urllib.parse import quote

from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.viewer import Sending
from holdfast.api.endpoint import EVENTS, NUMBER, PART, PRIVATE, HttpCall, Param, answer, route
from holdfast.api.request import origin_of
from holdfast.api.shapes import shapes
from holdfast.api.streams.event_stream import EventStream, event, events_of
from holdfast.api.streams.frames import follow_message
from holdfast.inbox.address import Address, agent_name, check_part
from holdfast.inbox.chat_message import attachment_hash
from holdfast.inbox.message import Accepted
from holdfast.kernel.errors import AttachmentNotFound, InvalidInput
from holdfast.kernel.ids import MessageId

BEFORE_ALL = 2**62
CONVERSATION_QUERY: dict[str, str | Param] = {
    "agent": "whose chat; the default agent's unless said",
    "chat": Param("the chat, as messages name it", PART, required=True),
    "before": Param("`before` of the page that came after", NUMBER),
    "limit": Param("how many messages; 100 unless said, at most 500", NUMBER, default=100, most=500),
}
OCTETS = "application/octet-stream"
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
HARMLESS = {**PRIVATE, "Content-Security-Policy": "default-src 'none'; sandbox"}


@route(
    "POST /v1/messages",
    Scope.SEND,
    answers={202: shapes.AcceptedMessage, 200: shapes.DuplicateMessage},
    body=shapes.NewMessage,
    also=EVENTS,
    errors=(404, 409),
)
async def post_message(call: HttpCall) -> Response:
    """Send a message to a chat; 202 only after it is durable. With `Accept: text/event-stream` the reply follows as
    events: `accepted`, `state`, `delta`, `restarted`, `asked`, `reply`.
    """
    new: shapes.NewMessage = call.body
    await call.caller.speak_as(new.sender, check_part("chat", new.chat), call.viewer)
    how = Sending(agent=new.agent, sender=new.sender, id=new.id, origin=origin_of(call))
    if EVENTS in call.request.headers.get("accept", ""):
        return await _send_and_stream(new, how, call)
    with call.settings.metrics.accept_seconds.time():
        outcome = await call.viewer.accept(new.chat, new.text, **how)
    return answer(shapes.accepted_view(outcome), 202 if isinstance(outcome, Accepted) else 200)


async def _send_and_stream(new: shapes.NewMessage, how: Sending, call: HttpCall) -> Response:
    viewer = call.viewer
    wanted = how["message"] = viewer.new_message()
    feed = viewer.listen(message=wanted)  # opened before the message exists, so that no event of its reply is missed
    try:
        with call.settings.metrics.accept_seconds.time():
            outcome = await viewer.accept(new.chat, new.text, **how)
        accepted = shapes.accepted_view(outcome)
    except BaseException:
        feed.close()
        raise
    if accepted.message != wanted:  # a duplicate: the message has an older id
        feed.close()
        feed = viewer.listen(message=accepted.message)
    told = events_of(follow_message(viewer, MessageId(accepted.message), feed))

    async def pieces() -> AsyncGenerator[bytes]:
        yield event(accepted.status, accepted, id=accepted.message)
        async for piece in told:
            yield piece

    status = 202 if isinstance(outcome, Accepted) else 200
    return EventStream(pieces(), call.settings.tasks, status_code=status)


@route("GET /v1/conversation", Scope.READ, query=CONVERSATION_QUERY, errors=(404,))
async def get_conversation(call: HttpCall) -> shapes.Conversation:
    """A chat as its participants saw it: messages, commands, questions and replies, in order."""
    asked, agent = call.query, agent_name(call.query["agent"] or call.viewer.default_agent)
    if asked["chat"] is None:
        raise InvalidInput("say which chat, with `chat`")
    address = Address(agent=agent, channel="http", type="dm", chat=asked["chat"])
    before, limit = asked["before"] or BEFORE_ALL, asked["limit"]
    return shapes.conversation_view(await call.viewer.conversation(str(address), before=before, limit=limit), limit)


@route("GET /v1/messages/{message}", Scope.READ)
async def get_message(call: HttpCall) -> shapes.MessageStatus:
    """The state of a message, with its reply and deliveries."""
    return shapes.message_view(await call.viewer.trace(MessageId(call.id("message"))))


@route("GET /v1/messages/{message}/stream", Scope.READ, media_type=EVENTS)
async def stream_message(call: HttpCall) -> Response:
    """The further events of a message as server-sent events, until its `reply`; a new request resumes."""
    message = MessageId(call.id("message"))
    await call.viewer.trace(message)  # raises before the stream starts
    feed = call.viewer.listen(message=message)
    return EventStream(events_of(follow_message(call.viewer, message, feed)), call.settings.tasks)


@route(
    "GET /v1/attachments/{hash}",
    Scope.READ,
    media_type=OCTETS,
    path_schemas={"hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
)
async def get_attachment(call: HttpCall) -> Response:
    """An attachment of a message as a download; the message lists the hashes of its attachments."""
    wanted = attachment_hash(call.request.path_params["hash"])
    found = await call.viewer.attachment(wanted)
    if found is None:
        raise AttachmentNotFound(f"there is no attachment {wanted}", hash=wanted)
    about, body = found
    named = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(about.name, safe='')}"}
    return Response(body, headers={**HARMLESS, **named}, media_type=_proven_type(body))


def _proven_type(body: bytes) -> str:
    """The image type that the first bytes prove; any other attachment has a generic type."""
    return next((media_type for magic, media_type in IMAGES.items() if body.startswith(magic)), OCTETS)
