"""The route of channels: whether the platforms of the bot accounts are there."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.channels.http.endpoint import Endpoint, Settings, answer
from holdfast.channels.http.request import Query
from holdfast.core.access_token import Scope
from holdfast.ports.channel_surface import ChannelStandings, standings_view

QUERY = {"agent": "only this agent's"}


async def get_channels(request: Request, settings: Settings) -> Response:
    agent = Query(request, QUERY).text("agent")
    found = [one for one in settings.service.channels() if agent is None or one.agent == agent]
    return answer(standings_view(found))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/channels",
        handler=get_channels,
        scope=Scope.READ,
        summary="The bot accounts of this process: whether each is connected, since when, and why not",
        query=QUERY,
        answers={200: ChannelStandings},
        errors=(400,),
    ),
)
