"""The JSON shapes of channel status."""

from collections.abc import Callable

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import list_of, view_of
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


standing_view: Callable[[ChannelStatus], ChannelStanding] = view_of(ChannelStanding)
standings_view = list_of(ChannelStandings, standing_view)
