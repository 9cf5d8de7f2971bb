"""Needs as the console shows them: with those of connections, and with one row for a provider that many agents miss."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

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
                name=channel.channel,
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
                name=server.server,
                command="holdfast tools",
            )


def by_provider(needs: Sequence[Need]) -> list[Need]:
    """The needs with one row for each provider that is away, however many agents wait for it."""
    shown: list[Need] = []
    away: dict[str, list[Need]] = {}
    for need in needs:
        if need.urgency is Urgency.MENDS and need.kind is NeedKind.DELIVERY and need.until is not None:
            if need.name not in away:
                shown.append(need)
            away.setdefault(need.name, []).append(need)
        else:
            shown.append(need)
    return [_together(away[one.name]) if one in away.get(one.name, ()) else one for one in shown]


def _together(needs: Sequence[Need]) -> Need:
    first = needs[0]
    if len(needs) == 1:
        return first
    agents = sorted(need.agent for need in needs)
    return replace(
        first,
        agent="",
        what=f"{first.name} takes no deliveries of {len(agents)} agents; they are tried again in order, none lost",
        evidence=f"{', '.join(agents)}: {first.evidence}",
        since=min(need.since for need in needs),
        until=min(need.until or first.since for need in needs),
    )
