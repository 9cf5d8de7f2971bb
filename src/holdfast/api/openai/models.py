"""GET /v1/models: the agents as a list of models."""

from holdfast.api.endpoint import ANY, HttpCall, route
from holdfast.api.openai.wire import ModelCard, ModelCards
from holdfast.kernel.errors import AgentNotFound


@route("GET /v1/models", ANY)
async def get_models(call: HttpCall) -> ModelCards:
    """OpenAI-compatible: the agents that this token may use, as models."""
    return ModelCards(data=[ModelCard(id=name) for name in call.viewer.agents()])


@route("GET /v1/models/{model}", ANY)
async def get_model(call: HttpCall) -> ModelCard:
    """OpenAI-compatible: one agent, as a model."""
    name = call.request.path_params["model"]
    if name not in call.viewer.agents():
        raise AgentNotFound(f"there is no agent {name[:80]!r}")
    return ModelCard(id=name)
