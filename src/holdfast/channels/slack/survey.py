"""The conversations that the bot is in, found by asking: somebody may have spoken first where nobody listened.

Rule 1: Slack lists them by type, and each type needs a scope of its own (channels:read, groups:read, im:read and
        mpim:read). One that is not granted is passed over and said; what is heard there is taken all the same.
Rule 2: few are asked at once, whatever else is read back. One that cannot be read now keeps its place until it can.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.channels.slack.history import pages
from holdfast.channels.slack.message import Json, word
from holdfast.channels.slack.web import SlackFailure, SlackWebApi

TYPES = ("im", "mpim", "private_channel", "public_channel")
PAGES_MAX = 100
ASKED_MAX = 4

Listing = list[Json] | SlackFailure


class Patient(Protocol):
    async def __call__(self, ask: Callable[[], Awaitable[Listing]], **where: str) -> list[Json] | None:
        """Asks until there is an answer; None when there never will be."""
        ...


async def survey(
    web: SlackWebApi, until_told: Patient, read: Callable[[str, Callable[[], None]], Awaitable[None]]
) -> bool:
    """Have each conversation read. `read` calls its second argument when it is done. Whether all types were listed."""
    slots = asyncio.Semaphore(ASKED_MAX)
    is_whole = True
    for kind in TYPES:
        found = await until_told(lambda kind=kind: _listed(web, kind), types=kind)  # type: ignore[misc]
        is_whole = is_whole and found is not None
        for chat in filter(None, (word(one, "id") for one in found or [])):
            await slots.acquire()
            await read(chat, slots.release)
    return is_whole


async def _listed(web: SlackWebApi, kind: str) -> Listing:
    return await pages(web, "users.conversations", PAGES_MAX, "channels", types=kind, exclude_archived="true")
