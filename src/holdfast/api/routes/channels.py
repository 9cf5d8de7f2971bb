"""The routes of this process's connections: the platforms of its bot accounts, and its MCP servers."""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, route
from holdfast.api.shapes.connections import ChannelStandings, ToolServers, servers_view, standings_view

QUERY = {"agent": "only this agent's"}


@route("GET /v1/channels", Scope.READ, query=QUERY)
async def get_channels(call: HttpCall) -> ChannelStandings:
    """The bot accounts of this process: the state of each connection, its time and its reason."""
    found = call.viewer.overview("channels").channels()
    return standings_view(one for one in found if call.query["agent"] in {None, one.agent})


@route("GET /v1/tools", Scope.READ, query=QUERY)
async def get_tools(call: HttpCall) -> ToolServers:
    """The MCP servers of this process: the state of each connection, its time, its reason and its tools."""
    found = call.viewer.overview("tool_servers").tool_servers()
    return servers_view(one for one in found if call.query["agent"] in {None, one.agent})
