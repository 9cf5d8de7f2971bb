"""A proxy before the real server: it answers by itself when it is told to, and forwards the request then, later or not.

async with Proxy(server.url) as proxy:
    proxy.answers.append(503); proxy.holds = True      # answered by the proxy, forwarded by `forward()`
    proxy.share = 0.4                                   # of the writes, answered with 500 by chance
"""

import random
from collections import deque
from typing import cast

import aiohttp
from aiohttp import web
from yarl import URL


class Proxy:
    def __init__(self, target: str) -> None:
        self._target = target
        self.answers: deque[int] = deque()  # statuses for the next writes
        self.holds = False  # whether a write that the proxy answers is forwarded later
        self.held: list[tuple[str, str, dict[str, str], bytes]] = []
        self.down = False  # 500 to everything
        self.share = 0.0
        self.dice = random.Random(10)

    async def __aenter__(self) -> "Proxy":
        self._session = aiohttp.ClientSession()
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{cast('tuple[str, int]', self._runner.addresses[0])[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def forward(self) -> None:
        held, self.held = self.held, []
        for method, path, headers, body in held:
            await self._pass_on(method, path, headers, body)

    async def _serve(self, request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        asked = (request.method, request.raw_path, headers, await request.read())
        is_write = request.method == "POST" and request.path.endswith("/memories")
        if self.down or (is_write and self.dice.random() < self.share):
            return web.Response(status=500, text="<html>failed</html>", content_type="text/html")
        if is_write and self.answers:
            if self.holds:
                self.held.append(asked)
            return web.Response(status=self.answers.popleft(), text="<html>busy</html>", content_type="text/html")
        status, content_type, body = await self._pass_on(*asked)
        return web.Response(status=status, body=body, content_type=content_type)

    async def _pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        url = URL(f"{self._target}{path}", encoded=True)
        async with self._session.request(method, url, data=body or None, headers=headers) as answer:
            return answer.status, answer.content_type, await answer.read()
