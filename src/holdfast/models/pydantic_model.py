"""One vendor's model through pydantic-ai's direct API. `LazyModel` imports this module with the first request.

Rule 1: each step of a stream has a time limit: connecting, the first event, each pause after it. The caller limits the
        whole.
Rule 2: an answer is complete or a failure. A stream without an end, an invalid end, and calls whose arguments are not a
        JSON object are failures, even after text was streamed.
Rule 3: redirects are refused and no request is retried: turns/model_call.py owns retries.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import cache
from typing import Any, cast

import httpx2
from pydantic_ai import messages as ai
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model, StreamedResponse, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings as VendorSettings
from pydantic_ai.usage import RequestUsage

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.settings_table import needs_no_proxy
from holdfast.models.faults import FOREIGN, failed, late, refused, translated
from holdfast.models.messages import messages_of, parameters_of
from holdfast.models.settings import ModelSettings, price_micros
from holdfast.models.vendors import VENDORS
from holdfast.turns.journal import ToolCall, estimate_tokens
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, TextDelta
from holdfast.turns.turn import Usage

CONNECT_WAIT_S = 10.0
PAUSE_WAIT_S = 45.0
CONNECTIONS_MAX = 64
NO_KEY = "none"  # for servers that require the header and ignore its value
ENDS = {
    "length": "reached its token limit in the middle of the answer",
    "content_filter": "refused to answer this",
}


class PydanticModel:
    def __init__(self, settings: ModelSettings, model: Model, client: httpx2.AsyncClient) -> None:
        self._settings = settings
        self._model = model
        self._client = client

    @classmethod
    def open(cls, settings: ModelSettings, key: str | None) -> "PydanticModel":
        """Make the vendor's client. Sends no request."""
        timeout = httpx2.Timeout(max(settings.first_token_wait_s, PAUSE_WAIT_S), connect=CONNECT_WAIT_S)
        limits = httpx2.Limits(max_connections=CONNECTIONS_MAX)
        client = httpx2.AsyncClient(
            verify=_tls(),
            timeout=timeout,
            limits=limits,
            follow_redirects=False,
            trust_env=not needs_no_proxy(settings.base_url or ""),
        )
        given: dict[str, Any] = {"api_key": key or NO_KEY}
        if settings.base_url is not None:
            given["base_url"] = settings.base_url
        if not VENDORS[settings.vendor].is_foreign:
            given["http_client"] = client

        def provider(name: str) -> Provider[Any]:
            return infer_provider_class(name)(**given)

        return cls(settings, infer_model(_pydantic_name(settings), provider), client)

    async def close(self) -> None:
        await self._client.aclose()

    async def inspect(self) -> str:
        """Look the model up in the vendor's list, which is free. Raises `ModelFailed`."""
        client: Any = getattr(self._model, "client", None)
        if VENDORS[self._settings.vendor].is_foreign or not hasattr(client, "models"):
            return "not tried: its library has no list of models"
        try:
            page = await client.with_options(max_retries=0).models.list()
            listed = [str(one.id) for one in page.data]
        except Exception as error:  # noqa: BLE001 - each vendor's library has its own
            status = getattr(error, "status_code", 0)
            raise refused(self._settings.name, status if isinstance(status, int) else 0) from None
        own = self._settings.name.partition(":")[2]
        return "the vendor lists it" if own in listed else f"reachable; not among the first {len(listed)} models"

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Raises `ModelFailed`."""
        async with AsyncExitStack() as stack:
            stream = await self._begin(stack, request)
            events, wait_s, began = aiter(stream), self._settings.first_token_wait_s, False
            try:
                while (event := await self._next(events, wait_s, request, began=began)) is not None:
                    wait_s, began = PAUSE_WAIT_S, True
                    text = text_of(event)
                    if text:
                        yield TextDelta(text)
            except ModelFailed as error:
                if began:
                    self._bill(error, request, stream.get())
                raise
        yield self._answer(request, stream.get())

    async def _begin(self, stack: AsyncExitStack, request: ModelRequest) -> StreamedResponse:
        wait_s = self._settings.first_token_wait_s
        parameters = parameters_of(request.tools)
        try:
            async with asyncio.timeout(wait_s):
                messages = self._model.prepare_messages(messages_of(request), parameters)
                opening = model_request_stream(
                    self._model,
                    messages,
                    model_settings=self._vendor_settings(),
                    model_request_parameters=parameters,
                    instrument=False,
                )
                return await stack.enter_async_context(opening)
        except TimeoutError:
            raise late(self._settings.name, wait_s, began=False) from None
        except FOREIGN as error:
            raise translated(self._settings.name, error, sent=_sent(request)) from None

    async def _next(
        self, events: AsyncIterator[ai.ModelResponseStreamEvent], wait_s: float, request: ModelRequest, *, began: bool
    ) -> ai.ModelResponseStreamEvent | None:
        try:
            async with asyncio.timeout(wait_s):
                return await anext(events, None)
        except TimeoutError:
            raise late(self._settings.name, wait_s, began=began) from None
        except FOREIGN as error:
            raise translated(self._settings.name, error, sent=_sent(request)) from None

    def _vendor_settings(self) -> VendorSettings:
        given: dict[str, object] = {"max_retries": 0, "cache": True}
        if self._settings.max_output_tokens is not None:
            given["max_tokens"] = self._settings.max_output_tokens
        if self._settings.temperature is not None:
            given["temperature"] = self._settings.temperature
        if _pydantic_name(self._settings).startswith(("openai:", "openai-responses:")):
            given["openai_store"] = False  # people's words are stored in the journal only
        return cast("VendorSettings", given)

    def _answer(self, request: ModelRequest, response: ai.ModelResponse) -> ModelAnswer:
        text = _words_of(response)
        cost = price_micros(self._settings, _counted(request, text, response.usage)) or 0
        try:
            calls = tuple(_call_of(part) for part in response.parts if isinstance(part, ai.ToolCallPart))
            self._check_end(response)
        except ModelFailed as error:
            self._bill(error, request, response)
            raise
        usage = _usage_of(response.usage)
        return ModelAnswer(text=text, calls=calls, usage=usage, model=self._settings.name, cost_micros=cost)

    def _bill(self, error: ModelFailed, request: ModelRequest, response: ai.ModelResponse) -> None:
        """Refusals and interrupted answers cost money too, so their failure carries the cost."""
        counted = dict(_counted(request, _words_of(response), response.usage))
        # The count before an interruption is less than the text that was written.
        counted["output_tokens"] = max(counted["output_tokens"], estimate_tokens(_words_of(response)))
        cost = price_micros(self._settings, counted) or 0
        error.context.update(model=self._settings.name, usage=_usage_of(response.usage), cost_micros=cost)

    def _check_end(self, response: ai.ModelResponse) -> None:
        name, reason = self._settings.name, response.finish_reason
        if reason in ENDS:
            raise failed(f"the model {name} {ENDS[reason]}", final=True, elsewhere=False)
        said = (response.provider_details or {}).get("finish_reason") or VENDORS[self._settings.vendor].is_foreign
        if reason in (None, "error") or response.state != "complete" or not said:
            # pydantic-ai treats a Chat Completions stream that just ends as complete.
            raise failed(f"the answer of the model {name} broke off")


@cache
def _tls() -> ssl.SSLContext:
    """Shared by all models: loading the system's certificates is slow, and the result is large."""
    return httpx2.create_ssl_context()


def _pydantic_name(settings: ModelSettings) -> str:
    """Servers at the operator's own URL speak at least Chat Completions."""
    if settings.vendor == "openai" and settings.base_url is not None:
        return f"openai-chat:{settings.model}"
    return settings.name


def text_of(event: ai.ModelResponseStreamEvent) -> str:
    if isinstance(event, ai.PartStartEvent) and isinstance(event.part, ai.TextPart):
        return event.part.content
    if isinstance(event, ai.PartDeltaEvent) and isinstance(event.delta, ai.TextPartDelta):
        return event.delta.content_delta
    return ""


def _call_of(part: ai.ToolCallPart) -> ToolCall:
    """A tool call whose arguments are one JSON object, as the model wrote it."""
    arguments = part.args if isinstance(part.args, str) else json.dumps(part.args or {}, ensure_ascii=False)
    arguments = arguments.strip() or "{}"
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise failed("the model called a tool with arguments that are not a JSON object")
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=arguments)


def _sent(request: ModelRequest) -> str:
    """All text of a request, which a vendor's error could repeat."""
    calls = (call.arguments for message in request.messages for call in message.calls)
    return "\n".join((*(message.content for message in request.messages), *calls))


def _words_of(response: ai.ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, ai.TextPart))


def _usage_of(usage: RequestUsage) -> Usage:
    return Usage(tokens_in=usage.input_tokens, tokens_out=usage.output_tokens)


def _counted(request: ModelRequest, text: str, usage: RequestUsage) -> Mapping[str, int]:
    if not usage.input_tokens and not usage.output_tokens:
        read = sum(estimate_tokens(message.content) for message in request.messages)
        return {"input_tokens": read, "output_tokens": estimate_tokens(text)}
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }
