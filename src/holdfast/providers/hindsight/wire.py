"""The transport under the vendor's client: the same requests, without its surprises.

The vendor's own transport takes proxies from the environment, follows redirects (with the key in the header) and
reads answers of any size. This one stands in its place, and tells what was never sent from what may have arrived.

Rule 1: one request is sent once. Rule 2: one session per event loop; a session of a loop that has ended is let go.
"""

import asyncio
import json
from collections.abc import Mapping

import aiohttp
import msgspec
from hindsight_client_api.rest import RESTResponse
from yarl import URL

from holdfast.kernel.clock import Clock
from holdfast.kernel.vendor_error import BODY_CHARS_MAX, texts_in, vendor_error
from holdfast.providers.hindsight import faults

ANSWER_BYTES_MAX = 32 * 1024 * 1024
CONNECT_S_MAX = 10.0
_READS = ("/memories/recall", "/reflect")  # asked by POST, and change nothing


class Wire:
    """Stands where the vendor's `RESTClientObject` does; `request` and `close` are what is called."""

    def __init__(self, clock: Clock, *, timeout_s: float, key_env: str | None, key: str | None) -> None:
        self._clock = clock
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S_MAX, timeout_s))
        self._key_env = key_env
        self._key = key or ""
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        post_params: object = None,  # noqa: ARG002 - part of the vendor's call, used for uploads only
        _request_timeout: object = None,
    ) -> RESTResponse:
        """Raises `Faulted` for everything but a success."""
        writes = method != "GET" and not URL(url).path.endswith(_READS)
        data = None if body is None else json.dumps(body).encode()
        typed = {"Content-Type": "application/json", **(headers or {})}
        try:
            async with (await self._opened()).request(
                method, URL(url, encoded=True), data=data, headers=typed, timeout=self._timeout, allow_redirects=False
            ) as response:
                return await self._answer(response, writes=writes, sent=body)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise faults.not_sent(_kind(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise faults.cut_off(_kind(error), writes=writes) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _answer(self, response: aiohttp.ClientResponse, *, writes: bool, sent: object) -> RESTResponse:
        if not 200 <= response.status < 300:
            headers = {name.lower(): value for name, value in response.headers.items()}
            body = await _read(response) if response.content_type == "application/json" else await _beginning(response)
            said = faults.Said(
                status=response.status,
                headers=headers,
                own=response.content_type == "application/json" and _is_own(body),
                vendor=vendor_error(response.status, headers, body, sent=texts_in(sent), secrets=[self._key]),
            )
            raise faults.answered(said, writes=writes, now=self._clock.now(), key_env=self._key_env)
        answer = RESTResponse(response)
        answer.data = await _read(response)  # type: ignore[assignment]  # the vendor's annotation lacks what it holds
        if response.content_type != "application/json":
            raise faults.not_understood(f"its answer is {response.content_type}")
        return answer

    async def _opened(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            if self._session is not None:
                await self._session.close()  # its connections ended with their loop
            self._session, self._loop = (
                aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()),
                loop,
            )
        return self._session


def _is_own(body: bytes) -> bool:
    """Whether the answer has the shape of Hindsight's errors."""
    try:
        return set(msgspec.json.decode(body, type=dict[str, object])) == {"detail"}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """What a proxy says first. It proves nothing, so it may be missing."""
    try:
        return await response.content.read(BODY_CHARS_MAX)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return b""


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > ANSWER_BYTES_MAX:
            raise faults.not_understood(f"its answer is larger than {ANSWER_BYTES_MAX} bytes")
    return b"".join(chunks)


def _kind(error: BaseException) -> str:
    """The kind of an error, without the address or anything else in its text."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host name is unknown"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return "its certificate is not trusted, or it speaks no TLS"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "nothing listens there, or the way is closed"
    return "the connection broke off"
