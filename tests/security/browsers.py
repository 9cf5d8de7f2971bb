"""A browser of the tests: it keeps the cookie of one server and names its origin, as every browser does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.support.live import TOKEN, code_of
from tests.support.patience import HANGS_S
from tests.support.processes import PLAIN

MESSAGE = {"chat": "c", "id": "1", "text": "hello"}


class Browser:
    def __init__(self, url: str) -> None:
        self.url = url
        self.cookie = ""  # `name=value`
        self.csrf = ""

    async def login(self, **wish: str) -> httpx.Response:
        response = await self.post("/v1/login", wish or {"token": TOKEN}, X_Holdfast_CSRF=None)
        assert response.status_code == 200, response.text
        self.cookie = response.headers["set-cookie"].partition(";")[0]
        self.csrf = response.json()["csrf"]
        return response

    def headers(self, **changed: str | None) -> dict[str, str]:
        sent = {"Cookie": self.cookie or None, "Origin": self.url, "X-Holdfast-CSRF": self.csrf}
        named = {name.replace("_", "-"): value for name, value in changed.items()}
        return {name: value for name, value in {**sent, **named}.items() if value is not None}

    async def get(self, path: str = "/v1/me", **changed: str | None) -> httpx.Response:
        return await self.ask("GET", path, None, Origin=None, X_Holdfast_CSRF=None, **changed)

    async def post(self, path: str, body: object = None, **changed: str | None) -> httpx.Response:
        return await self.ask("POST", path, body, **changed)

    async def ask(self, method: str, path: str, body: object, **changed: str | None) -> httpx.Response:
        async with self.client() as client:
            return await client.request(method, path, json=body, headers=self.headers(**changed))

    @asynccontextmanager
    async def stream(self, path: str, headers: dict[str, str]) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of a stream of events."""
        async with self.client() as client, client.stream("GET", path, headers=headers) as response:
            yield response.aiter_lines()

    def client(self) -> httpx.AsyncClient:
        """Without cookies of its own: the tests say which one is sent."""
        return httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=HANGS_S, verify=PLAIN)

    async def logout(self) -> httpx.Response:
        response = await self.post("/v1/logout")
        assert response.status_code == 200, response.text
        return response

    @property
    def name(self) -> str:
        return self.cookie.partition("=")[0]

    @property
    def value(self) -> str:
        return self.cookie.partition("=")[2]


def said(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, code_of(response)
