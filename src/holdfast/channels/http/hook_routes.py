"""Where platforms call: the raw bytes go to the channel, which checks its platform's signature. No token is needed."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.channels.http.endpoint import OPEN, PRIVATE, Endpoint, Settings
from holdfast.channels.http.errors import NotFound
from holdfast.channels.http.request import read_body
from holdfast.core.key import agent_name
from holdfast.ports.channel import WebhookRequest


async def post_hook(request: Request, settings: Settings) -> Response:
    """Acknowledged only when the channel has made the event durable, or has decided not to keep it."""
    agent = agent_name(request.path_params["agent"])
    channel = agent_name(request.path_params["channel"], what="channel")
    body = await read_body(request, settings.body_bytes_max)
    status = await settings.hooks.hook(agent, channel, WebhookRequest(headers=dict(request.headers), body=body))
    if status is None:
        raise NotFound(f"the agent {agent} has no channel {channel} that a platform may call")
    return Response(b"", status_code=status, headers=PRIVATE)


class NoHooks:
    """For a server without channels."""

    async def hook(self, agent: str, channel: str, request: WebhookRequest) -> int | None:  # noqa: ARG002
        return None


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/hooks/{agent}/{channel}",
        handler=post_hook,
        scope=OPEN,
        summary="An event of a chat platform, signed as that platform signs",
        answers={200: None},
        takes="*/*",
        errors=(401, 404, 408, 413, 503),
    ),
)
