"""Names of people, for readers only. They are never needed, never trusted, and forgotten after a while."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from holdfast.channels.slack.message import part, word
from holdfast.channels.slack.web import Failure, Web
from holdfast.core.ids import Instant
from holdfast.ports.clock import Clock

NAMES_MAX = 2_000
KNOWN_MS = 3_600_000
UNKNOWN_MS = 60_000  # a name that could not be had is not asked for again at once
NAME_CHARS_MAX = 80
ASK_S = 3  # a message waits no longer for the name of its sender


class People:
    def __init__(self, web: Web, clock: Clock) -> None:
        self._web = web
        self._clock = clock
        self._names: OrderedDict[str, tuple[str, Instant]] = OrderedDict()

    async def names(self, users: Iterable[str]) -> dict[str, str]:
        return {user: await self.name(user) for user in users}

    async def name(self, user: str) -> str:
        """The name as Slack shows it; empty when it cannot be had."""
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

    async def _asked(self, user: str) -> str:
        try:
            async with asyncio.timeout(ASK_S):
                answer = await self._web.get("users.info", user=user)
        except TimeoutError:
            return ""
        return "" if isinstance(answer, Failure) else _shown(answer)


def _shown(answer: dict[str, object]) -> str:
    user = part(answer, "user")
    profile = part(user, "profile")
    name = word(profile, "display_name") or word(profile, "real_name") or word(user, "real_name") or word(user, "name")
    return name[:NAME_CHARS_MAX]
