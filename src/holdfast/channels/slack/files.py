"""Downloads the files of a message.

Rule 1: the token is sent to Slack's own hosts only, or to the host of `api_url`; redirects are not followed.
Rule 2: a file that is too large, too slow or refused is named without its bytes; the message is taken all the same.
Rule 3: few messages with files are processed at once, from download to storage, so that slow files delay only files.
"""

import asyncio
from urllib.parse import urlsplit

from holdfast.channels.slack.message import Json, string
from holdfast.channels.slack.web import SlackWebApi
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, Attachment

OFFICIAL = "slack.com"
MESSAGE_S = 60  # for all files of one message
TRIES_MAX = 3
AT_ONCE_MAX = 2  # messages with files in memory; each may take 200 MB


class SlackFiles:
    def __init__(self, web: SlackWebApi) -> None:
        self._web = web
        self.gate = asyncio.Semaphore(AT_ONCE_MAX)  # held from the download until the message is stored

    async def fetch(self, files: tuple[Json, ...]) -> tuple[Attachment, ...]:
        kept = [file for file in files if string(file, "mode") != "tombstone"]
        bodies: list[bytes | None] = [None] * len(kept)
        try:
            async with asyncio.timeout(MESSAGE_S):
                for n, file in enumerate(kept[:ATTACHMENTS_MAX]):
                    bodies[n] = await self._body(file)
        except TimeoutError:
            pass  # the missing files are named without a body
        return tuple(_attachment(file, body) for file, body in zip(kept, bodies, strict=True))

    async def _body(self, file: Json) -> bytes | None:
        url = string(file, "url_private_download") or string(file, "url_private")
        if _size(file) > ATTACHMENT_BYTES_MAX or not is_slack_url(url, self._web.api_url):
            return None
        return await self._web.download(url, bytes_max=ATTACHMENT_BYTES_MAX, tries_max=TRIES_MAX)


def is_slack_url(url: str, api_url: str) -> bool:
    """Whether the token may be sent to this URL."""
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
        name=(string(file, "name") or string(file, "title") or string(file, "id") or "file")[:255],
        media_type=string(file, "mimetype") or "application/octet-stream",
        size=_size(file) if body is None else len(body),
        body=body,
    )


def _size(file: Json) -> int:
    size = file.get("size")
    return size if isinstance(size, int) and size > 0 else 0
