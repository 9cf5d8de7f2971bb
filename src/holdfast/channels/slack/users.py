"""Users of Slack: their rank, and their display names, which are cached and never trusted."""

import asyncio
from collections import OrderedDict

from holdfast.channels.slack.message import mapping, string
from holdfast.channels.slack.web import SlackFailure, SlackWebApi
from holdfast.kernel.ids import Instant
from holdfast.kernel.ports import Clock
from holdfast.sessions.command_rights import Rank

NAMES_MAX = 2_000
KNOWN_MS = 3_600_000
UNKNOWN_MS = 60_000  # a failed lookup is not repeated sooner
NAME_CHARS_MAX = 80
ADMINS = ("is_admin", "is_owner", "is_primary_owner")
RANK_S = 5.0  # a command waits no longer for its sender's rank
ASK_S = 3  # a message waits no longer for its sender's name


class SlackUsers:
    def __init__(self, web: SlackWebApi, clock: Clock) -> None:
        self._web = web
        self._clock = clock
        self._names: OrderedDict[str, tuple[str, Instant]] = OrderedDict()

    async def name(self, user: str) -> str:
        """The display name; empty if Slack does not tell it."""
        name, until = self._names.get(user, ("", Instant(0)))
        now = self._clock.now()
        if now < until:
            self._names.move_to_end(user)
            return name
        known = await self._asked(user)
        self._names[user] = (known, Instant(now + (KNOWN_MS if known else UNKNOWN_MS)))
        while len(self._names) > NAMES_MAX:
            self._names.popitem(last=False)
        return known or name

    async def rank(self, chat: str, user: str) -> Rank:
        """`ADMIN` for an admin or owner of the workspace and for the channel's creator. Not cached."""
        try:
            async with asyncio.timeout(RANK_S):
                answer = await self._web.get("users.info", user=user)
                if not isinstance(answer, SlackFailure) and any(
                    mapping(answer, "user").get(name) is True for name in ADMINS
                ):
                    return Rank.ADMIN
                channel = await self._web.get("conversations.info", channel=chat)
        except TimeoutError:
            return Rank.UNKNOWN
        if not isinstance(channel, SlackFailure) and string(mapping(channel, "channel"), "creator") == user:
            return Rank.ADMIN
        return Rank.UNKNOWN if isinstance(answer, SlackFailure) or isinstance(channel, SlackFailure) else Rank.MEMBER

    async def _asked(self, user: str) -> str:
        try:
            async with asyncio.timeout(ASK_S):
                answer = await self._web.get("users.info", user=user)
        except TimeoutError:
            return ""
        return "" if isinstance(answer, SlackFailure) else _shown(answer)


def _shown(answer: dict[str, object]) -> str:
    user = mapping(answer, "user")
    profile = mapping(user, "profile")
    name = (
        string(profile, "display_name")
        or string(profile, "real_name")
        or string(user, "real_name")
        or string(user, "name")
    )
    return name[:NAME_CHARS_MAX]
