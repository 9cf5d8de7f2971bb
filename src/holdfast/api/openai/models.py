"""GET /v1/models: the agents as a list of models."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.endpoint import ANY, Endpoint, Settings, answer
from holdfast.api.openai.wire import ModelCard, ModelCards
from holdfast.api.request import QueryParameters
from holdfast.kernel.errors import AgentNotFound


async def get_models(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    return answer(ModelCards(data=[ModelCard(id=name) for name in settings.service.agents()]))


async def get_model(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    name = request.path_params["model"]
    if name not in settings.service.agents():
        raise AgentNotFound(f"there is no agent {name[:80]!r}")
    return answer(ModelCard(id=name))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/models",
        handler=get_models,
        scope=ANY,
        summary="OpenAI-compatible: the agents that this token may use, as models",
        answers={200: ModelCards},
    ),
    Endpoint(
        method="GET",
        path="/v1/models/{model}",
        handler=get_model,
        scope=ANY,
        summary="OpenAI-compatible: one agent, as a model",
        answers={200: ModelCard},
        errors=(400, 404),
    ),
)
