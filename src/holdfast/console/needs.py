"""What connections of this process need: bots that are down, and MCP servers that are not there."""

from collections.abc import Iterator, Sequence

from holdfast.inbox.channel_status import ChannelStatus, ConnectionState, ToolServerStatus
from holdfast.monitor.status import Need, NeedKind, Urgency


def connection_needs(channels: Sequence[ChannelStatus], servers: Sequence[ToolServerStatus]) -> Iterator[Need]:
    for channel in channels:
        if channel.state is ConnectionState.DOWN:
            yield Need(
                urgency=Urgency.STUCK,
                kind=NeedKind.CHANNEL,
                agent=channel.agent,
                what=f"{channel.channel} of {channel.agent} is not connected",
                evidence=f"{channel.reason}; {channel.attempts} attempts failed",
                since=channel.since,
                subject=channel.channel,
                command="holdfast channels",
            )
    for server in servers:
        if server.state is ConnectionState.DOWN:
            yield Need(
                urgency=Urgency.STUCK,
                kind=NeedKind.TOOLS,
                agent=server.agent,
                what=f"MCP server {server.server} of {server.agent} is not there",
                evidence=f"{server.reason}; {server.attempts} attempts failed",
                since=server.since,
                subject=server.server,
                command="holdfast tools",
            )
