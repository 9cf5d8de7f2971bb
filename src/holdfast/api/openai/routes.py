"""The routes of OpenAI's clients: an answer, whole or as a stream, over durable messages, and the agents as models.

A response is the answer to a message, so it has the message's id. `previous_response_id` continues in the same chat.
Without it, and without a chat named by a header or by `user`, each response starts a new chat.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from msgspec import Meta, Struct, structs
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.viewer import Viewer
from holdfast.api.endpoint import ANY, EVENTS, HttpCall, answer, route
from holdfast.api.errors import UnsupportedParameter
from holdfast.api.openai import asking, wire
from holdfast.api.request import decode, read_body
from holdfast.api.streams.event_stream import EventStream, event
from holdfast.inbox.address import check_part
from holdfast.inbox.mailbox import MessageTrace
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import AgentNotFound, InvalidInput, MessageNotFound
from holdfast.kernel.ids import MessageId

COMPLETION = "chatcmpl-"


class StreamOptions(Struct, frozen=True):
    include_usage: bool = False


class CompletionRequest(Struct, frozen=True):
    """The parts of OpenAI's request that define the question; other fields are ignored."""

    messages: Annotated[list[asking.InputItem], Meta(min_length=1)]
    model: asking.Name | None = None  # null: the default agent
    n: int | None = None  # an agent has one history, and so one answer
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: asking.Name | None = None


@route(
    "POST /v1/chat/completions",
    Scope.SEND,
    answers={200: wire.Completion},
    body=CompletionRequest,
    decodes=False,
    also=EVENTS,
    errors=(404, 409),
)
async def post_completion(call: HttpCall) -> Response:
    """OpenAI-compatible: ask an agent (`model`). Only the last of `messages` is used; the header X-Holdfast-Chat or
    `user` names the chat.
    """
    body = await read_body(call.request, call.settings.body_bytes_max)
    wanted = decode(body, CompletionRequest)
    if wanted.n not in {None, 1}:
        raise UnsupportedParameter(f"n is {wanted.n}: an agent gives one answer to a question; leave n out")
    agent = call.viewer.default_agent if wanted.model is None else wanted.model
    chat = asking.chat_of(call, wanted.user)
    taken = await asking.take(
        call, body, agent=agent, chat=chat, user=wanted.user, text=asking.last_words(wanted.messages)
    )
    wanted, body = structs.replace(wanted, messages=[]), b""  # frees memory while the answer is awaited
    call.request.scope["opened"].free()
    if wanted.stream:
        has_usage = wanted.stream_options is not None and wanted.stream_options.include_usage
        return EventStream(_chunks(agent, taken, call.viewer, has_usage=has_usage), call.settings.tasks)
    trace = await asking.over(taken, call.viewer)
    return answer(_completion(agent, trace), headers={"X-Holdfast-Message": taken.message})


def _completion(model: str, trace: MessageTrace) -> wire.Completion:
    said = wire.Said(content=asking.text_of(trace))
    return wire.Completion(
        id=f"{COMPLETION}{trace.message}",
        created=trace.accepted_at // 1000,
        model=model,
        choices=[wire.CompletionChoice(message=said)],
        usage=wire.usage_of(trace),
    )


async def _chunks(model: str, taken: asking.TakenMessage, viewer: Viewer, *, has_usage: bool) -> AsyncGenerator[bytes]:
    trace = await viewer.trace(taken.message)
    made = trace.accepted_at // 1000

    def chunk(*choices: wire.ChunkChoice, **rest: object) -> bytes:
        found = wire.Chunk(id=f"{COMPLETION}{taken.message}", created=made, model=model, choices=list(choices), **rest)  # type: ignore[arg-type]
        return event("", found)

    yield chunk(wire.ChunkChoice(delta=wire.Piece(role="assistant", content="")))
    async with aclosing(asking.words(taken, viewer)) as pieces:
        async for text in pieces:
            yield chunk(wire.ChunkChoice(delta=wire.Piece(content=text)))
    yield chunk(wire.ChunkChoice(delta=wire.Piece(), finish_reason="stop"))
    if has_usage:
        yield chunk(usage=wire.usage_of(await viewer.trace(taken.message)))
    yield wire.DONE


@route("GET /v1/models", ANY)
async def get_models(call: HttpCall) -> wire.ModelCards:
    """OpenAI-compatible: the agents that this token may use, as models."""
    return wire.ModelCards(data=[wire.ModelCard(id=name) for name in call.viewer.agents()])


@route("GET /v1/models/{model}", ANY)
async def get_model(call: HttpCall) -> wire.ModelCard:
    """OpenAI-compatible: one agent, as a model."""
    name = call.request.path_params["model"]
    if name not in call.viewer.agents():
        raise AgentNotFound(f"there is no agent {name[:80]!r}")
    return wire.ModelCard(id=name)


# --- the Responses API -------------------------------------------------------------------------------

RESPONSE = "resp_"
FAILED = frozenset({MessageState.FAILED, MessageState.REFUSED, MessageState.HELD})


class ResponseRequest(Struct, frozen=True):
    """The parts of OpenAI's request that define the question; other fields are ignored."""

    input: str | list[asking.InputItem]
    model: asking.Name | None = None  # null: the default agent, or that of the previous response
    stream: bool = False
    previous_response_id: str | None = None
    user: asking.Name | None = None


@route(
    "POST /v1/responses",
    Scope.SEND,
    answers={200: wire.ResponseObject},
    body=ResponseRequest,
    decodes=False,
    also=EVENTS,
    errors=(404, 409),
)
async def post_response(call: HttpCall) -> Response:
    """OpenAI-compatible: ask an agent (`model`); `previous_response_id` continues in the same chat."""
    body = await read_body(call.request, call.settings.body_bytes_max)
    wanted = decode(body, ResponseRequest)
    agent, chat = await _place(call, wanted)
    text = wanted.input if isinstance(wanted.input, str) else asking.last_words(wanted.input)
    taken = await asking.take(call, body, agent=agent, chat=chat, user=wanted.user, text=text)
    wanted, body = structs.replace(wanted, input=""), b""  # frees memory while the answer is awaited
    call.request.scope["opened"].free()
    if wanted.stream:
        return EventStream(_events(wanted, taken, call.viewer), call.settings.tasks)
    return answer(_response(await asking.over(taken, call.viewer), wanted.previous_response_id, is_answer=True))


@route("GET /v1/responses/{response}", Scope.READ)
async def get_response(call: HttpCall) -> wire.ResponseObject:
    """OpenAI-compatible: the current state of a response."""
    return _response(await _found(call.request.path_params["response"], call.viewer))


async def _place(call: HttpCall, wanted: ResponseRequest) -> tuple[str, str]:
    """The agent and the chat of a request."""
    if wanted.previous_response_id is not None:
        before = await _found(wanted.previous_response_id, call.viewer)
        if wanted.model is not None and before.agent != wanted.model:
            raise InvalidInput(
                f"{wanted.previous_response_id[:80]!r} was answered by {before.agent}, not {wanted.model}"
            )
        return before.agent, before.chat
    agent = call.viewer.default_agent if wanted.model is None else wanted.model
    if wanted.user or any(call.request.headers.get(name) for name in asking.CHAT_HEADERS):
        return agent, asking.chat_of(call, wanted.user)
    binding = call.caller.token.binding
    return agent, binding.usual_chat("") if binding.sender is None else ""


async def _found(id: str, viewer: Viewer) -> MessageTrace:
    if not id.startswith(RESPONSE):
        raise MessageNotFound(f"there is no response {id[:80]!r}; ids begin with {RESPONSE}")
    return await viewer.trace(MessageId(check_part("response", id[len(RESPONSE) :])))


def _response(trace: MessageTrace, previous: str | None = None, *, is_answer: bool = False) -> wire.ResponseObject:
    """A response. A question counts as an answer even after it was decided; the reply follows under the same id."""
    is_over = is_answer or trace.is_over or trace.awaiting is not None
    text = asking.text_of(trace)
    failed = trace.state in FAILED
    status = "failed" if failed else "completed" if is_over else "in_progress"
    return wire.ResponseObject(
        id=f"{RESPONSE}{trace.message}",
        created_at=trace.accepted_at // 1000,
        status=status,
        model=trace.agent,
        output=[_output(trace.message, text)] if is_over else [],
        error=wire.ResponseError(code="server_error", message=trace.reason or text) if failed else None,
        previous_response_id=previous,
        usage=wire.ResponseUsage(
            input_tokens=trace.tokens_in,
            output_tokens=trace.tokens_out,
            total_tokens=trace.tokens_in + trace.tokens_out,
        )
        if is_over
        else None,
    )


def _output(message: str, text: str, status: str = "completed") -> wire.OutputMessage:
    return wire.OutputMessage(id=f"msg_{message}", status=status, content=[wire.OutputText(text=text)])


class _EventSequence:
    """The numbered events of one response."""

    def __init__(self, message: str) -> None:
        self._number = -1
        self.item = f"msg_{message}"

    def event(self, name: str, **fields: Any) -> bytes:  # noqa: ANN401
        self._number += 1
        return event(name, {"type": name, "sequence_number": self._number, **fields})

    def part(self, name: str, **fields: Any) -> bytes:  # noqa: ANN401
        return self.event(name, item_id=self.item, output_index=0, content_index=0, **fields)


async def _events(wanted: ResponseRequest, taken: asking.TakenMessage, viewer: Viewer) -> AsyncGenerator[bytes]:
    sequence, previous = _EventSequence(taken.message), wanted.previous_response_id
    begun = _response(await viewer.trace(taken.message), previous)
    yield sequence.event("response.created", response=begun)
    yield sequence.event("response.in_progress", response=begun)
    empty = {"id": sequence.item, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    yield sequence.event("response.output_item.added", output_index=0, item=empty)
    yield sequence.part("response.content_part.added", part=wire.OutputText(text=""))
    shown = ""
    async with aclosing(asking.words(taken, viewer)) as pieces:
        async for text in pieces:
            shown += text
            yield sequence.part("response.output_text.delta", delta=text, logprobs=[])
    yield sequence.part("response.output_text.done", text=shown, logprobs=[])
    yield sequence.part("response.content_part.done", part=wire.OutputText(text=shown))
    yield sequence.event("response.output_item.done", output_index=0, item=_output(taken.message, shown))
    ended = _response(await viewer.trace(taken.message), previous, is_answer=True)
    yield sequence.event("response.failed" if ended.error else "response.completed", response=ended)
