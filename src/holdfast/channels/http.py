"""HTTP requests of a channel over httpx, limited in time and size.

Rule 1: no request is repeated here and no redirect is followed: either could post a message twice or elsewhere.
Rule 2: only a failure to connect (name, refusal, TLS, no free connection in the pool) proves that nothing was sent. The
        server may close a kept-alive connection while a request is on its way, so no other error proves anything.
Rule 3: requests go to httpx's transport, not to its client. The client logs every URL, and a URL may hold a token. It
        would also send them through a proxy named in the environment, and keep cookies.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import needs_no_proxy

CONNECT_S = 10.0
KEEP_ALIVE_S = 15.0
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
FAILED = (httpx.HTTPError, OSError)  # a `TimeoutError` of the whole exchange is an `OSError`


class HttpConnections:
    """The constructor loads certificates, which blocks for a moment; it needs no event loop."""

    def __init__(self, proxy: str | None = None) -> None:
        limits = httpx.Limits(keepalive_expiry=KEEP_ALIVE_S)
        self._transport = httpx.AsyncHTTPTransport(limits=limits, proxy=proxy)

    async def exchange(
        self, request: httpx.Request, total_s: float, bytes_max: int
    ) -> tuple[httpx.Response, bytes | None]:
        """The response and its body, or None for a body larger than `bytes_max`. Raises `FAILED`."""
        request.extensions["timeout"] = {"connect": CONNECT_S, "pool": CONNECT_S}
        async with asyncio.timeout(total_s), aclosing(await self._transport.handle_async_request(request)) as response:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > bytes_max:
                    return response, None
            return response, bytes(body)

    async def fetch(
        self, url: str, *, total_s: float, bytes_max: int, tries_max: int, headers: Mapping[str, str] | None = None
    ) -> bytes | None:
        """The file at a URL; None if it is refused, larger than `bytes_max` or unavailable."""
        for _ in range(tries_max):
            try:
                response, body = await self.exchange(httpx.Request("GET", url, headers=headers), total_s, bytes_max)
            except (*FAILED, httpx.InvalidURL):
                continue
            if response.status_code != 429 and response.status_code < 500:
                return body if response.status_code == 200 else None
        return None

    async def close(self) -> None:
        await self._transport.aclose()


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL; none for plain http on this machine. Raises `ConfigInvalid`."""
    if needs_no_proxy(url) or proxy_bypass(urlsplit(url).hostname or ""):
        return None
    named = getproxies()
    proxy = named.get("https") or named.get("http")
    if proxy is not None and "://" in proxy and not proxy.startswith(("http://", "https://")):
        what = f"the environment names a proxy of the kind {proxy.partition(':')[0]}; use one with http:// or https://"
        raise ConfigInvalid(what, key="https_proxy")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
