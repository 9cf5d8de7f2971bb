"""The JSON shapes of connection status: bot accounts and MCP servers."""

from collections.abc import Callable

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import list_of, view_of
from holdfast.inbox.channel_status import ChannelStatus, ToolServerStatus


class ChannelStanding(Shape, frozen=True, kw_only=True):
    """A bot account, and whether it is connected to its platform."""

    agent: str
    channel: str
    state: str  # starting, up, down
    since: int
    reason: str  # why it is down; the bot's name on the platform while it is up
    attempts: int  # consecutive failed attempts


class ChannelStandings(Shape, frozen=True, kw_only=True):
    """In the order of the configuration."""

    channels: list[ChannelStanding]


standing_view: Callable[[ChannelStatus], ChannelStanding] = view_of(ChannelStanding)
standings_view = list_of(ChannelStandings, standing_view)


class ToolServer(Shape, frozen=True, kw_only=True):
    """An MCP server, and whether it is connected."""

    agent: str
    server: str
    state: str  # starting, up, down
    since: int
    reason: str  # why it is down
    attempts: int  # consecutive failed attempts to connect
    restarts: int  # connections after the first one
    tools: list[str]  # the names that the model sees now
    confinement: str = ""  # bubblewrap, landlock: the program does not reach Holdfast's data; none; empty: no program
    confinement_note: str = ""  # why the confinement is not stronger
    user: str = ""  # that the program runs as; empty: the user of Holdfast


class ToolServers(Shape, frozen=True, kw_only=True):
    """In the order of the configuration."""

    servers: list[ToolServer]


server_view: Callable[[ToolServerStatus], ToolServer] = view_of(ToolServer)
servers_view = list_of(ToolServers, server_view)
