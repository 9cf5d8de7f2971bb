"""Holdfast behind a real nginx over TLS, as docs/howto/serve-over-tls.md sets it up."""

import asyncio
import json
import ssl

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from holdfast.api.auth.guard import ATTEMPTS_MAX, Names
from tests.proxy.nginx import HOST, nginx
from tests.support.live import TOKEN, GatedModel, serve
from tests.support.patience import HANGS_S

pytestmark = pytest.mark.proxy
BEARER = {"Authorization": f"Bearer {TOKEN}"}
NAMES = Names(public_hosts=(HOST,), trusted_proxies=("127.0.0.1",))


class Outside:
    """Somebody on the other side of the proxy."""

    def __init__(self, port: int, certificate: str, model: GatedModel) -> None:
        self.port = port
        self.model = model
        self.tls = ssl.create_default_context(cafile=certificate)
        self.origin = f"https://{HOST}:{port}"
        self.client = httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}",
            headers={"Host": f"{HOST}:{port}"},
            verify=self.tls,
            trust_env=False,
            timeout=HANGS_S,
        )

    async def ask(self, method: str, path: str, **more) -> httpx.Response:
        return await self.client.request(method, path, extensions={"sni_hostname": HOST}, **more)

    def streamed(self, path: str, **more):
        return self.client.stream("POST", path, extensions={"sni_hostname": HOST}, **more)


@pytest_asyncio.fixture
async def outside(tmp_path):
    model = GatedModel()
    async with serve(tmp_path / "data", model=model, names=NAMES) as live, nginx(tmp_path, live.url) as port:
        somebody = Outside(port, str(tmp_path / "cert.pem"), model)
        async with somebody.client:
            yield somebody


async def test_the_page_and_health_come_through(outside):
    assert (await outside.ask("GET", "/healthz")).status_code == 200
    page = await outside.ask("GET", "/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


async def test_a_login_has_a_cookie_that_never_leaves_tls(outside):
    answer = await outside.ask("POST", "/v1/login", json={"token": TOKEN}, headers={"Origin": outside.origin})
    assert answer.status_code == 200, answer.text
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")}
    assert {"secure", "httponly", "samesite=strict"} <= attributes


async def test_a_reply_appears_while_it_is_made(outside):
    body = {"chat": "ada", "id": "1", "text": "My cat is called Byron."}
    sse = {**BEARER, "Accept": "text/event-stream"}
    async with outside.streamed("/v1/messages", json=body, headers=sse) as response:
        lines = response.aiter_lines()
        while await anext(lines) != "event: accepted":  # the model has not been let go yet
            pass
        outside.model.gate.set()
        assert "event: reply" in [line async for line in lines]


async def test_the_websocket_comes_through(outside):
    address = f"wss://{HOST}:{outside.port}/v1/ws"
    where = {"host": "127.0.0.1", "port": outside.port, "ssl": outside.tls, "proxy": None}
    async with connect(address, additional_headers=BEARER, origin=outside.origin, **where) as socket:
        assert json.loads(await socket.recv())["type"] == "ready"


async def test_a_forged_address_does_not_help_to_guess(outside):
    answers = [
        await outside.ask("GET", "/v1/me", headers={"Authorization": "Bearer no", "X-Forwarded-For": f"10.0.0.{n}"})
        for n in range(ATTEMPTS_MAX + 1)
    ]
    assert [one.status_code for one in answers] == [*[401] * ATTEMPTS_MAX, 429]


async def test_a_foreign_name_is_refused(outside):
    answer = await outside.ask("GET", "/v1/me", headers={**BEARER, "Host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "host_not_allowed")


async def test_many_at_once_come_through(outside):
    answers = await asyncio.gather(*(outside.ask("GET", "/v1/me", headers=BEARER) for _ in range(20)))
    assert {one.status_code for one in answers} == {200}
