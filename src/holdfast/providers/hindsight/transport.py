"""The HTTP transport under the vendor's client, and what each failure means for a delivery.

The vendor's own transport uses proxies of the environment, follows redirects (with the key in the header) and reads
responses of any size. This one replaces it, and distinguishes a request that was never sent from one that may have
arrived. Every foreign exception and status is translated here.

Rule 1: one request is sent once.
Rule 2: each event loop has its own session; the session of a loop that has ended is closed.
Rule 3: a request that did not leave this machine is `Unreachable`; a write that may have arrived is `Uncertain`.
Rule 4: answers.py says what the status of a write proves; a read that failed has changed nothing.
Rule 5: no reason holds a body, a header or the key: the server quotes people's words in its errors. `vendor` holds the
        response without them (kernel/vendor_error.py).
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp
import msgspec
from hindsight_client_api.rest import RESTResponse
from yarl import URL

from holdfast.kernel.ids import Instant
from holdfast.kernel.ports import Clock
from holdfast.kernel.vendor_error import BODY_CHARS_MAX, Meaning, answer_to, texts_in, vendor_error
from holdfast.memory.delivery import Refused, Uncertain, Unreachable
from holdfast.providers.hindsight.answers import ANSWERS
from holdfast.providers.hindsight.factory import HindsightSettings

ANSWER_BYTES_MAX = 32 * 1024 * 1024
CONNECT_S_MAX = 10.0
RETRY_AFTER_MS_MAX = 3_600_000
_RECALL = "/memories/recall"  # a POST request that changes nothing
Problem = Refused | Unreachable | Uncertain


class HindsightCallFailed(Exception):
    """A call got no usable response; `problem` is the outcome for a delivery."""

    def __init__(self, problem: Problem, status: int = 0) -> None:
        super().__init__(problem.reason)
        self.problem = problem
        self.status = status


def not_understood(what: str) -> HindsightCallFailed:
    return HindsightCallFailed(Unreachable(f"the server at hindsight.url is not Hindsight: {what}"))


class HindsightTransport:
    """Replaces the vendor's `RESTClientObject`; the vendor's client calls `request` and `close`."""

    def __init__(self, settings: HindsightSettings, key: str | None, clock: Clock) -> None:
        connect_s = min(CONNECT_S_MAX, settings.timeout_s)
        self._clock = clock
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout_s, sock_connect=connect_s)
        self._key_env = settings.api_key_env
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
        """Raises `HindsightCallFailed` for every response but a success."""
        writes = method != "GET" and not URL(url).path.endswith(_RECALL)
        data = None if body is None else json.dumps(body).encode()
        typed = {"Content-Type": "application/json", **(headers or {})}
        try:
            async with (await self._opened()).request(
                method, URL(url, encoded=True), data=data, headers=typed, timeout=self._timeout, allow_redirects=False
            ) as response:
                return await self._response(response, writes=writes, sent=body)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            reason = f"Hindsight cannot be reached: {_kind(error)}"
            raise HindsightCallFailed(Unreachable(reason)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = f"Hindsight gave no answer: {_kind(error)}"
            problem = Uncertain(reason, away=True) if writes else Unreachable(reason)
            raise HindsightCallFailed(problem) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _response(self, response: aiohttp.ClientResponse, *, writes: bool, sent: object) -> RESTResponse:
        if not 200 <= response.status < 300:
            raise await self._failure(response, writes=writes, sent=sent)
        answer = RESTResponse(response)
        answer.data = await _read(response)  # type: ignore[assignment]  # the vendor's annotation lacks what it holds
        if response.content_type != "application/json":
            raise not_understood(f"its response is {response.content_type}")
        return answer

    async def _failure(self, response: aiohttp.ClientResponse, *, writes: bool, sent: object) -> HindsightCallFailed:
        is_json = response.content_type == "application/json"
        body = await _read(response) if is_json else await _beginning(response)
        status, headers = response.status, {name.lower(): value for name, value in response.headers.items()}
        vendor = vendor_error(status, headers, body, sent=texts_in(sent), secrets=[self._key])
        answer = answer_to(ANSWERS, status, own=is_json and _is_own(body))
        reason = f"{answer.says} ({status}){self._advice(status, headers)}"
        wait_ms = _retry_after_ms(headers.get("retry-after"), self._clock.now())
        match answer.meaning:
            case Meaning.REFUSED:
                problem: Problem = Refused(reason, vendor=vendor)
            case Meaning.UNCERTAIN if writes:
                problem = Uncertain(reason, wait_ms, away=True, vendor=vendor)
            case _:
                is_suspect = writes and answer.meaning is Meaning.SUSPECT
                problem = Unreachable(reason, wait_ms, suspect=is_suspect, vendor=vendor)
        return HindsightCallFailed(problem, status)

    def _advice(self, status: int, headers: Mapping[str, str]) -> str:
        """What the operator should change."""
        if status in (401, 403):
            return f"; set {self._key_env or 'hindsight.api_key_env'} to one that it accepts"
        if 300 <= status < 400:
            where = urlsplit(headers.get("location", ""))
            return f" to {where.scheme or '(the same scheme)'}://{where.hostname or '(the same host)'}; set it to that"
        return ""

    async def _opened(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            if self._session is not None:
                await self._session.close()  # its connections ended with their loop
            self._session = aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar())
            self._loop = loop
        return self._session


def _is_own(body: bytes) -> bool:
    """Whether the body has the shape of Hindsight's errors."""
    try:
        return set(msgspec.json.decode(body, type=dict[str, object])) == {"detail"}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The start of a proxy's body. It proves nothing, so a failure to read it is ignored."""
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
            raise not_understood(f"its response is larger than {ANSWER_BYTES_MAX} bytes")
    return b"".join(chunks)


def _kind(error: BaseException) -> str:
    """The kind of an error, without the address or any other part of its text."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host name is unknown"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return "its certificate is not trusted, or it does not speak TLS"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "no server listens there, or the network blocks it"
    return "the connection broke"


def _retry_after_ms(value: str | None, now: Instant) -> int | None:
    """The header holds seconds or an HTTP date; None for anything else."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, RETRY_AFTER_MS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError):
        return None
    at_ms = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    return min(max(at_ms - now, 0), RETRY_AFTER_MS_MAX)
