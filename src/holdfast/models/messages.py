"""Our messages as pydantic-ai's. Imported only for a vendor's model, since pydantic-ai is heavy.

Rule 1: the translation of a message depends on the message alone, so a context that grew at its end gives requests
        with the same prefix, byte for byte, and vendors' prompt caches hit.
Rule 2: the messages before the first user message are the system prompt; later notices keep their place.
Rule 3: a conversation to be summarised is data, one JSON value per line, so that no text in it can instruct the
        summariser, no model continues it, and calls of tools that are not offered do no harm.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby

from pydantic_ai import messages as ai
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from holdfast.turns.context import ModelMessage as Message
from holdfast.turns.model import ModelRequest as Request
from holdfast.turns.model import ModelTask, ToolSpec

NO_TEXT = "(no text)"  # vendors refuse an empty message
TRANSCRIPT = "The conversation, one JSON value per line:"


def messages_of(request: Request) -> list[ai.ModelMessage]:
    said = transcript(request.messages) if request.task is ModelTask.SUMMARY else request.messages
    turns = groupby((message for message in said if not _is_blank(message)), lambda one: one.role == "assistant")
    return [_response(part) if is_answer else _request(part) for is_answer, part in turns]


def parameters_of(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
            for tool in tools
        ]
    )


def transcript(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A summary request as instructions and one data message (rule 3)."""
    head = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    lines = [TRANSCRIPT, *(_line(message) for message in messages[head:])]
    return (*messages[:head], Message(role="user", content="\n".join(lines)))


def _line(message: Message) -> str:
    value: dict[str, object] = {"role": message.data or message.role, "text": message.content}
    if message.name:
        value["name"] = message.name
    if message.calls:
        value["calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.calls]
    return json.dumps(value, ensure_ascii=False)


def _is_blank(message: Message) -> bool:
    """Vendors refuse an assistant message without text and calls."""
    return message.role == "assistant" and not message.content.strip() and not message.calls


def _request(messages: Iterable[Message]) -> ai.ModelRequest:
    return ai.ModelRequest(parts=[_part(message) for message in messages])


def _part(message: Message) -> ai.ModelRequestPart:
    match message.role:
        case "system":
            return ai.SystemPromptPart(content=message.content)
        case "tool":
            return ai.ToolReturnPart(tool_name=message.name, content=message.content, tool_call_id=message.call)
        case _:
            return ai.UserPromptPart(content=message.content if message.content.strip() else NO_TEXT)


def _response(messages: Iterable[Message]) -> ai.ModelResponse:
    parts: list[ai.ModelResponsePart] = []
    for message in messages:
        if message.content.strip():
            parts.append(ai.TextPart(content=message.content))
        parts.extend(
            ai.ToolCallPart(tool_name=call.name, args=call.arguments or "{}", tool_call_id=call.id)
            for call in message.calls
        )
    return ai.ModelResponse(parts=parts)
