"""The routes of this process's connections: the platforms of its bot accounts, and its MCP servers."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import Endpoint, Settings, answer
from holdfast.api.request import QueryParameters
from holdfast.api.shapes.channels import ChannelStandings, standings_view
from holdfast.api.shapes.tool_servers import ToolServers, servers_view

QUERY = {"agent": "only this agent's"}


async def get_channels(request: Request, settings: Settings) -> Response:
    agent = QueryParameters(request, QUERY).text("agent")
    found = [one for one in settings.service.channels() if agent is None or one.agent == agent]
    return answer(standings_view(found))


async def get_tools(request: Request, settings: Settings) -> Response:
    agent = QueryParameters(request, QUERY).text("agent")
    found = [one for one in settings.service.tool_servers() if agent is None or one.agent == agent]
    return answer(servers_view(found))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/channels",
        handler=get_channels,
        scope=Scope.READ,
        summary="The bot accounts of this process: the state of each connection, its time and its reason",
        query=QUERY,
        answers={200: ChannelStandings},
        errors=(400,),
    ),
    Endpoint(
        method="GET",
        path="/v1/tools",
        handler=get_tools,
        scope=Scope.READ,
        summary="The MCP servers of this process: the state of each connection, its time, its reason and its tools",
        query=QUERY,
        answers={200: ToolServers},
        errors=(400,),
    ),
)
