"""Short sentences for the tests of models: a model at a fake vendor's, asked one thing."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from holdfast.kernel.machine import AsyncTasks
from holdfast.models.choose import LazyModel, make_model
from holdfast.models.settings import parse_settings
from holdfast.turns.context import ModelMessage
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import Model, ModelAnswer, ModelRequest, ModelTask, ToolSpec
from holdfast.turns.model_call import hear
from tests.support.model_vendor import KEY, FakeVendor, Play
from tests.support.patience import HANGS_S

ENVIRONMENT = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
NAMES = {"openai": "openai:gpt-5.2", "anthropic": "anthropic:claude-haiku-5-5", "ollama": "ollama:llama3.2"}
LOOK = ToolSpec(
    name="look",
    description="Look something up.",
    parameters={"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
)


def said(role: str, content: str, **more: object) -> ModelMessage:
    return ModelMessage(role=role, content=content, **more)  # type: ignore[arg-type]


def request(
    *messages: ModelMessage, task: ModelTask = ModelTask.REPLY, tools: tuple[ToolSpec, ...] = ()
) -> ModelRequest:
    return ModelRequest(task=task, messages=messages or (said("user", "hello"),), tools=tools)


def call(id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def path_of(vendor: FakeVendor, name: str) -> str:
    return vendor.url if name.startswith("anthropic") else f"{vendor.url}/v1"


@asynccontextmanager
async def model_at(vendor: FakeVendor, kind: str = "openai", **settings: object) -> AsyncIterator[LazyModel]:
    name = str(settings.pop("name", NAMES.get(kind, kind)))
    table: Mapping[str, object] = {"name": name, "base_url": path_of(vendor, name), **settings}
    model = make_model(parse_settings(table), ENVIRONMENT, AsyncTasks())
    assert isinstance(model, LazyModel)
    try:
        yield model
    finally:
        await model.close()


HANGS_MS = int(HANGS_S * 1_000)  # the limit of the test is for that; the vendors' libraries are loaded meanwhile


async def ask(model: Model, asked: ModelRequest | None = None, heard: list[str] | None = None) -> ModelAnswer:
    pieces = heard if heard is not None else []
    return await hear(model, asked or request(), HANGS_MS, pieces.append, pieces.clear)


async def answer_to(
    *plays: Play, kind: str = "openai", asked: ModelRequest | None = None, **settings: object
) -> ModelAnswer:
    async with FakeVendor(list(plays)) as vendor, model_at(vendor, kind, **settings) as model:
        return await ask(model, asked)
