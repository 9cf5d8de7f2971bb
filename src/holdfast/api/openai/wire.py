"""The parts of OpenAI's shapes that its clients use."""

from msgspec import field

from holdfast.api.shapes.view import Shape
from holdfast.inbox.mailbox import MessageTrace

DONE = b"data: [DONE]\n\n"
STARTED_AGAIN = "\n\n[the answer was interrupted and starts again]\n\n"


class CompletionUsage(Shape, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Said(Shape, frozen=True, kw_only=True):
    role: str = "assistant"
    content: str
    refusal: str | None = None


class CompletionChoice(Shape, frozen=True, kw_only=True):
    index: int = 0
    message: Said
    finish_reason: str = "stop"
    logprobs: None = None


class Completion(Shape, frozen=True, kw_only=True):
    """A complete answer."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class Piece(Shape, frozen=True, kw_only=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None


class ChunkChoice(Shape, frozen=True, kw_only=True):
    index: int = 0
    delta: Piece
    finish_reason: str | None = None


class Chunk(Shape, frozen=True, kw_only=True):
    id: str
    object: str = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: CompletionUsage | None = None


class ModelCard(Shape, frozen=True, kw_only=True):
    """An agent as a model."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "holdfast"


class ModelCards(Shape, frozen=True, kw_only=True):
    """The agents as models."""

    object: str = "list"
    data: list[ModelCard]


class OutputText(Shape, frozen=True, kw_only=True):
    type: str = "output_text"
    text: str
    annotations: list[str] = field(default_factory=list)


class OutputMessage(Shape, frozen=True, kw_only=True):
    id: str
    type: str = "message"
    role: str = "assistant"
    status: str = "completed"
    content: list[OutputText]


class ResponseUsage(Shape, frozen=True, kw_only=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, int] = field(default_factory=lambda: {"cached_tokens": 0})
    output_tokens_details: dict[str, int] = field(default_factory=lambda: {"reasoning_tokens": 0})


class ResponseError(Shape, frozen=True, kw_only=True):
    code: str
    message: str


class ResponseObject(Shape, frozen=True, kw_only=True):
    """One answer of the Responses API."""

    id: str
    object: str = "response"
    created_at: int
    status: str
    model: str
    output: list[OutputMessage]
    error: ResponseError | None = None
    incomplete_details: None = None
    instructions: None = None
    metadata: dict[str, str] = field(default_factory=dict)
    parallel_tool_calls: bool = False
    previous_response_id: str | None = None
    temperature: float | None = None
    tool_choice: str = "auto"
    tools: list[str] = field(default_factory=list)
    top_p: float | None = None
    usage: ResponseUsage | None = None
    user: str | None = None


def usage_of(trace: MessageTrace) -> CompletionUsage:
    counted = trace.tokens_in + trace.tokens_out
    return CompletionUsage(prompt_tokens=trace.tokens_in, completion_tokens=trace.tokens_out, total_tokens=counted)
