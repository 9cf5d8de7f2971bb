"""POST /v1/chat/completions: one question and one answer, whole or as a stream. GET /v1/models: the agents."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from msgspec import Meta, Struct, structs
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.viewer import Viewer
from holdfast.api.endpoint import ANY, EVENTS, HttpCall, answer, route
from holdfast.api.errors import UnsupportedParameter
from holdfast.api.openai import asking, wire
from holdfast.api.request import decode, read_body
from holdfast.api.streams.event_stream import EventStream, event
from holdfast.inbox.mailbox import MessageTrace
from holdfast.kernel.errors import AgentNotFound

PREFIX = "chatcmpl-"


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
        id=f"{PREFIX}{trace.message}",
        created=trace.accepted_at // 1000,
        model=model,
        choices=[wire.CompletionChoice(message=said)],
        usage=wire.usage_of(trace),
    )


async def _chunks(model: str, taken: asking.TakenMessage, viewer: Viewer, *, has_usage: bool) -> AsyncGenerator[bytes]:
    trace = await viewer.trace(taken.message)
    made = trace.accepted_at // 1000

    def chunk(*choices: wire.ChunkChoice, **rest: object) -> bytes:
        found = wire.Chunk(id=f"{PREFIX}{taken.message}", created=made, model=model, choices=list(choices), **rest)  # type: ignore[arg-type]
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
