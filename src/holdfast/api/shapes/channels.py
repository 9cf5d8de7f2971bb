"""The JSON shapes of channel status."""

from collections.abc import Iterable

from holdfast.api.shapes.shapes import Shape
from holdfast.inbox.channel_status import ChannelStatus


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


def standing_view(one: ChannelStatus) -> ChannelStanding:
    return ChannelStanding(
        agent=one.agent,
        channel=one.channel,
        state=one.state.value,
        since=one.since,
        reason=one.reason,
        attempts=one.attempts,
    )


def standings_view(found: Iterable[ChannelStatus]) -> ChannelStandings:
    return ChannelStandings(channels=[standing_view(one) for one in found])
