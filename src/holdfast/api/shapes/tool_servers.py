"""The JSON shapes of MCP server status."""

from collections.abc import Iterable

from holdfast.api.shapes.shapes import Shape
from holdfast.inbox.channel_status import ToolServerStatus


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


def server_view(one: ToolServerStatus) -> ToolServer:
    return ToolServer(
        agent=one.agent,
        server=one.server,
        state=one.state.value,
        since=one.since,
        reason=one.reason,
        attempts=one.attempts,
        restarts=one.restarts,
        tools=list(one.tools),
        confinement=one.confinement,
        confinement_note=one.confinement_note,
        user=one.user,
    )


def servers_view(found: Iterable[ToolServerStatus]) -> ToolServers:
    return ToolServers(servers=[server_view(one) for one in found])
