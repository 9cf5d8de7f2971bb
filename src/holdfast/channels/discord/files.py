"""Downloads a message's attachments within limits, and from Discord's own hosts only.

A file that is too large, on another host or unavailable is named without its bytes, so that no conversation waits for
it. URLs come with messages and are not trusted: no redirect is followed.
"""

from urllib.parse import urlsplit

import discord

from holdfast.channels.http import HttpConnections
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, Attachment

HOSTS = frozenset({("https", "cdn.discordapp.com"), ("https", "media.discordapp.net")})
FETCH_S = 30.0
TRIES_MAX = 2


class DiscordFiles:
    """The downloads of one run of a channel."""

    def __init__(self, api_url: str) -> None:
        parts = urlsplit(api_url)
        self._hosts = HOSTS | {(parts.scheme, parts.netloc)}
        self._http = HttpConnections()

    async def of(self, message: discord.Message) -> tuple[Attachment, ...]:
        return tuple([await self._attachment(item, n) for n, item in enumerate(message.attachments)])

    async def close(self) -> None:
        await self._http.close()

    async def _attachment(self, item: discord.Attachment, n: int) -> Attachment:
        body = None
        if n < ATTACHMENTS_MAX and self._is_wanted(item):
            body = await self._http.fetch(
                item.url, total_s=FETCH_S, bytes_max=ATTACHMENT_BYTES_MAX, tries_max=TRIES_MAX
            )
        media_type = item.content_type or "application/octet-stream"
        size = item.size if body is None else len(body)
        return Attachment(name=item.filename, media_type=media_type, size=size, body=body)

    def _is_wanted(self, item: discord.Attachment) -> bool:
        parts = urlsplit(item.url)
        return item.size <= ATTACHMENT_BYTES_MAX and (parts.scheme, parts.netloc) in self._hosts
