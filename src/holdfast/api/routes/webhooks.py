"""The route of platform webhooks: the channel checks the platform's signature of the raw bytes. No token is needed."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.endpoint import OPEN, PRIVATE, HttpCall, route
from holdfast.api.errors import NotFound
from holdfast.api.request import read_body
from holdfast.inbox.address import agent_name
from holdfast.inbox.channel import WebhookRequest


@route("POST /v1/hooks/{agent}/{channel}", OPEN, any_query=True, errors=(401, 408, 413, 415))
async def post_hook(call: HttpCall) -> Response:
    """Receive an event of a chat platform, signed by the platform."""
    # Acknowledged after the channel has made the event durable or has decided to drop it.
    agent = agent_name(call.request.path_params["agent"])
    channel = agent_name(call.request.path_params["channel"], what="channel")
    headers, hooks = _headers(call.request), call.settings.hooks
    unknown = NotFound(f"the agent {agent} has no channel {channel} that a platform may call")
    if not hooks.check_head(agent, channel, headers):
        raise unknown
    body = await read_body(call.request, call.settings.body_bytes_max)
    answer = await hooks.hook(agent, channel, WebhookRequest(headers=headers, body=body))
    if answer is None:
        raise unknown
    return Response(
        answer.body, status_code=answer.status, headers=PRIVATE, media_type=answer.media_type if answer.body else None
    )


def _headers(request: Request) -> Mapping[str, str]:
    """The headers. A repeated header is joined, so that no second signature exists beside the one that is checked."""
    joined: dict[str, str] = {}
    for name, value in request.headers.items():
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
