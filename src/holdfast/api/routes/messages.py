"""The routes of messages: send one, read its state, and stream its reply."""

from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import EVENTS, PART, Endpoint, Param, Settings, answer, caller_of
from holdfast.api.origin import origin_of
from holdfast.api.request import QueryParameters, decode, read_body
from holdfast.api.shapes import shapes
from holdfast.api.shapes.conversation import Conversation, conversation_view
from holdfast.api.streams.event_stream import EventStream, event, events_of
from holdfast.api.streams.frames import follow_message
from holdfast.inbox.address import Address, agent_name, check_part
from holdfast.inbox.message import Accepted, Origin
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import MessageId

LINES_DEFAULT, LINES_MAX = 100, 500
BEFORE_ALL = 2**62
NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
CONVERSATION_QUERY: dict[str, str | Param] = {
    "agent": "whose chat; the default agent's unless said",
    "chat": Param("the chat, as messages name it", PART, required=True),
    "before": Param("`before` of the page that came after", NUMBER),
    "limit": Param(f"how many messages; {LINES_DEFAULT} unless said, at most {LINES_MAX}", NUMBER),
}


async def post_message(request: Request, settings: Settings) -> Response:
    """Answers 202 only after the message is durable. If the client accepts events, the reply is in the response."""
    QueryParameters(request, ())
    new = decode(await read_body(request, settings.body_bytes_max), shapes.NewMessage)
    await caller_of(request).speak_as(new.sender, check_part("chat", new.chat), settings.service)
    if EVENTS in request.headers.get("accept", ""):
        return await _send_and_stream(new, settings, origin_of(request))
    with settings.metrics.accept_seconds.time():
        outcome = await settings.service.accept(
            new.chat, new.text, agent=new.agent, sender=new.sender, id=new.id, origin=origin_of(request)
        )
    return answer(shapes.accepted_view(outcome), 202 if isinstance(outcome, Accepted) else 200)


async def _send_and_stream(new: shapes.NewMessage, settings: Settings, origin: Origin) -> Response:
    service, wanted = settings.service, settings.service.new_message()
    feed = service.listen(message=wanted)  # opened before the message exists, so that no event of its reply is missed
    try:
        with settings.metrics.accept_seconds.time():
            outcome = await service.accept(
                new.chat, new.text, agent=new.agent, sender=new.sender, id=new.id, message=wanted, origin=origin
            )
        accepted = shapes.accepted_view(outcome)
    except BaseException:
        feed.close()
        raise
    if accepted.message != wanted:  # a duplicate: the message has an older id
        feed.close()
        feed = service.listen(message=accepted.message)
    told = events_of(follow_message(service, MessageId(accepted.message), feed))

    async def pieces() -> AsyncGenerator[bytes]:
        yield event(accepted.status, accepted, id=accepted.message)
        async for piece in told:
            yield piece

    status = 202 if isinstance(outcome, Accepted) else 200
    return EventStream(pieces(), settings.tasks, status_code=status)


async def get_message(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    return answer(shapes.message_view(await settings.service.trace(_message(request))))


async def stream_message(request: Request, settings: Settings) -> Response:
    """Stream from durable state: a reader that was cut off asks again and gets the rest and the whole reply."""
    QueryParameters(request, ())
    message = _message(request)
    await settings.service.trace(message)  # raises before the stream starts
    feed = settings.service.listen(message=message)
    return EventStream(events_of(follow_message(settings.service, message, feed)), settings.tasks)


async def get_conversation(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, CONVERSATION_QUERY)
    agent = agent_name(query.text("agent") or settings.service.default_agent)
    chat, limit = query.text("chat"), query.number("limit", LINES_DEFAULT, most=LINES_MAX)
    if chat is None:
        raise InvalidInput("say which chat, with `chat`")
    address = Address(agent=agent, channel="http", type="dm", chat=chat)
    before = query.number("before", 0) or BEFORE_ALL
    found = await settings.service.conversation(str(address), before=before, limit=limit)
    return answer(conversation_view(found, limit))


def _message(request: Request) -> MessageId:
    return MessageId(check_part("message", request.path_params["message"]))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/messages",
        handler=post_message,
        scope=Scope.SEND,
        summary="Send a message to a chat; 202 only after it is durable. With `Accept: text/event-stream` the reply "
        "follows as events: `accepted`, `state`, `delta`, `restarted`, `asked`, `reply`",
        body=shapes.NewMessage,
        answers={202: shapes.AcceptedMessage, 200: shapes.DuplicateMessage},
        also=EVENTS,
        errors=(400, 404, 408, 409, 413, 429, 503),
    ),
    Endpoint(
        method="GET",
        path="/v1/conversation",
        handler=get_conversation,
        scope=Scope.READ,
        summary="A chat as its participants saw it: messages, commands, questions and replies, in order",
        query=CONVERSATION_QUERY,
        answers={200: Conversation},
        errors=(400, 404),
    ),
    Endpoint(
        method="GET",
        path="/v1/messages/{message}",
        handler=get_message,
        scope=Scope.READ,
        summary="The state of a message, with its reply and deliveries",
        answers={200: shapes.MessageStatus},
        errors=(400, 404),
    ),
    Endpoint(
        method="GET",
        path="/v1/messages/{message}/stream",
        handler=stream_message,
        scope=Scope.READ,
        summary="The further events of a message as server-sent events, until its `reply`; a new request resumes",
        answers={200: None},
        media_type=EVENTS,
        errors=(400, 404),
    ),
)
