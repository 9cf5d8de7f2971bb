"""Lists the conversations that the bot is in, to find those whose first message arrived during an outage.

Rule 1: Slack lists conversations by type, and each type needs a scope of its own (channels:read, groups:read, im:read
        and mpim:read). A type that is not granted is skipped and logged; its events are still received.
Rule 2: few conversations are read back at once. One that cannot be read now keeps its place until it can.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.channels.slack.history import pages
from holdfast.channels.slack.message import Json, string
from holdfast.channels.slack.web import SlackFailure, SlackWebApi

TYPES = ("im", "mpim", "private_channel", "public_channel")
PAGES_MAX = 100
READS_MAX = 4

Listing = list[Json] | SlackFailure


class Persist(Protocol):
    async def __call__(self, ask: Callable[[], Awaitable[Listing]], **where: str) -> list[Json] | None:
        """Repeat the call until it is answered; None if the answer is a permanent refusal."""
        ...


async def read_each(
    web: SlackWebApi, persist: Persist, read: Callable[[str, Callable[[], None]], Awaitable[None]]
) -> bool:
    """Call `read` for each conversation; it calls its second argument when done. False if a type was not listed."""
    slots = asyncio.Semaphore(READS_MAX)
    is_complete = True
    for kind in TYPES:
        found = await persist(lambda kind=kind: _listed(web, kind), types=kind)  # type: ignore[misc]
        is_complete = is_complete and found is not None
        for chat in filter(None, (string(one, "id") for one in found or [])):
            await slots.acquire()
            await read(chat, slots.release)
    return is_complete


async def _listed(web: SlackWebApi, kind: str) -> Listing:
    return await pages(web, "users.conversations", PAGES_MAX, "channels", types=kind, exclude_archived="true")
