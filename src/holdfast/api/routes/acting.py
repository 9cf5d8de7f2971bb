"""What an operator does to an agent: pause it and let it go on."""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, route
from holdfast.api.shapes import acting as shapes
from holdfast.audit.action import Act


@route("GET /v1/pauses", Scope.READ)
async def get_pauses(call: HttpCall) -> shapes.PausedAgents:
    """The paused agents, with the time and the person."""
    return shapes.pauses_view(await call.viewer.overview("pauses").pauses())


@route("POST /v1/agents/{agent}/pause", Scope.OPERATE, act=Act.AGENT_PAUSED, errors=(404,))
async def post_pause(call: HttpCall) -> shapes.AgentPaused:
    """Pause an agent: it accepts and stores messages and begins no turn until it is resumed."""
    agent = call.id("agent")
    return shapes.change_view(agent, await call.viewer.overview("pauses").pause(agent), paused=True)


@route("POST /v1/agents/{agent}/resume", Scope.OPERATE, act=Act.AGENT_RESUMED, errors=(404,))
async def post_resume(call: HttpCall) -> shapes.AgentPaused:
    """Resume a paused agent; its messages are answered in their order."""
    agent = call.id("agent")
    return shapes.change_view(agent, await call.viewer.overview("pauses").resume(agent), paused=False)
