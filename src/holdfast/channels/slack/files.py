"""Files that came with a message.

Rule 1: the token goes to Slack's own hosts only, or to the host that `api_url` names; redirects are not followed.
Rule 2: what is too large, too slow or refused is named without its body; the message is taken all the same.
Rule 3: few messages with files are on their way at a time, from fetching to keeping. Slow files hold up only files.
"""

import asyncio
from urllib.parse import urlsplit

import aiohttp

from holdfast.channels.slack.message import Json, word
from holdfast.channels.slack.web import SlackWebApi
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, Attachment

OFFICIAL = "slack.com"
MESSAGE_S = 60  # for all files of one message
TRIES_MAX = 3
AT_ONCE_MAX = 2  # messages with files that are on their way: each may take 200 MB of memory
CHUNK_BYTES = 64 * 1024


class SlackFiles:
    def __init__(self, web: SlackWebApi) -> None:
        self._web = web
        self.gate = asyncio.Semaphore(AT_ONCE_MAX)  # whoever fetches holds it until the bytes are given away

    async def fetch(self, files: tuple[Json, ...]) -> tuple[Attachment, ...]:
        kept = [file for file in files if word(file, "mode") != "tombstone"]
        bodies: list[bytes | None] = [None] * len(kept)
        try:
            async with asyncio.timeout(MESSAGE_S):
                for n, file in enumerate(kept[:ATTACHMENTS_MAX]):
                    bodies[n] = await self._body(file)
        except TimeoutError:
            pass  # those that are missing are named without a body
        return tuple(_attachment(file, body) for file, body in zip(kept, bodies, strict=True))

    async def _body(self, file: Json) -> bytes | None:
        url = word(file, "url_private_download") or word(file, "url_private")
        if _size(file) > ATTACHMENT_BYTES_MAX or not is_slacks(url, self._web.api_url):
            return None
        for _ in range(TRIES_MAX):
            try:
                return await self._download(url)
            except (aiohttp.ClientError, OSError):
                continue
        return None

    async def _download(self, url: str) -> bytes | None:
        """None for what is refused or too large. Raises aiohttp's errors for what may work another time."""
        async with self._web.session.get(url, headers=self._web.bearer, allow_redirects=False) as answer:
            if answer.status == 429 or answer.status >= 500:
                raise aiohttp.ClientPayloadError
            if answer.status != 200:
                return None
            body = bytearray()
            async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
                body += chunk
                if len(body) > ATTACHMENT_BYTES_MAX:
                    return None
            return bytes(body)


def is_slacks(url: str, api_url: str) -> bool:
    """Whether the token may be sent there."""
    try:
        place, home = urlsplit(url), urlsplit(api_url)
        origin, home_origin = (place.scheme, place.hostname, place.port), (home.scheme, home.hostname, home.port)
    except ValueError:
        return False
    if home.hostname != OFFICIAL:
        return origin == home_origin
    is_official = f".{place.hostname}".endswith(f".{OFFICIAL}")
    return is_official and place.scheme == "https" and origin[2] in (None, 443)


def _attachment(file: Json, body: bytes | None) -> Attachment:
    return Attachment(
        name=(word(file, "name") or word(file, "title") or word(file, "id") or "file")[:255],
        media_type=word(file, "mimetype") or "application/octet-stream",
        size=_size(file) if body is None else len(body),
        body=body,
    )


def _size(file: Json) -> int:
    size = file.get("size")
    return size if isinstance(size, int) and size > 0 else 0
