"""A real HTTP server on a free port of loopback, over a real store, inside the test's event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from holdfast.api.app import HttpApp, Setup, make_app
from holdfast.api.auth.guard import Names
from holdfast.api.limits.server_limits import ServerLimits
from holdfast.api.server import HttpServer, bind, url_of
from holdfast.inbox.channel import Webhooks
from holdfast.kernel.ports import Clock
from holdfast.models.practice import PracticeModel
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.turns.agents import Agents
from holdfast.turns.model import Model, ModelEvent, ModelRequest
from holdfast.turns.policy import AgentPolicy
from tests.support.patience import HANGS_S
from tests.support.processes import PLAIN

TOKEN = "a-token-that-only-tests-know-and-nobody-guesses"
BODY_BYTES_MAX = 300_000


class GatedModel:
    """The practice model behind a gate; `asked` is set as soon as somebody waits there."""

    name = "gated"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.set()
        await self.gate.wait()
        async for event in PracticeModel().ask(request):
            yield event


@dataclass
class Live:
    runtime: Runtime
    app: HttpApp
    url: str
    client: httpx.AsyncClient
    server: HttpServer
    side: Any = None  # what a test puts beside it

    async def get(self, path: str, **query: object) -> httpx.Response:
        return await self.client.get(path, params={name: str(value) for name, value in query.items()})

    async def post(self, path: str, body: object = None) -> httpx.Response:
        return await self.client.post(path, json=body)

    async def say(self, text: str, *, chat: str = "hello", id: str = "1", **more: str) -> httpx.Response:
        return await self.post("/v1/messages", {"chat": chat, "id": id, "text": text, **more})

    async def talk(self, *texts: str, chat: str = "hello", sender: str = "user") -> str:
        """Say each text, wait for its reply, and return the live session."""
        for text in texts:
            await self.runtime.ask(chat, text, sender=sender)
        return next(session.id for session in await self.runtime.sessions(chat=chat) if session.live)


@asynccontextmanager
async def serve(
    data: Path,
    *,
    model: Model | None = None,
    policy: AgentPolicy | None = None,
    listed: Mapping[str, AgentPolicy] | None = None,
    wrap: Callable[[Runtime], Any] = lambda runtime: runtime,
    clock: Clock | None = None,
    names: Names | None = None,
    hooks: Webhooks | None = None,
    limits: ServerLimits | None = None,
    port: int = 0,
    agents: Agents | None = None,
) -> AsyncIterator[Live]:
    who = agents or make_agents(model=model, policy=policy, listed=listed)
    async with await open_runtime(data, agents=who) as runtime:
        listening = bind("127.0.0.1", port)
        url = url_of(listening)
        setup = Setup(
            token=TOKEN,
            version="0",
            body_bytes_max=BODY_BYTES_MAX,
            clock=clock,
            names=names or Names(),
            hooks=hooks,
            limits=limits or ServerLimits(),
        )
        app = make_app(wrap(runtime), setup)
        server = HttpServer(app, listening, clock or runtime.clock, frame_bytes_max=BODY_BYTES_MAX)
        serving = asyncio.create_task(server.run_until_stopped())
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            client = httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=HANGS_S, verify=PLAIN)
            async with client:
                yield Live(runtime, app, url, client, server)
        finally:
            server.stop()
            await serving


def code_of(response: httpx.Response) -> str:
    """The error's code, after checking that the error has the one shape."""
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "hint"}
    assert all(isinstance(value, str) and value for value in body["error"].values())
    assert response.headers["content-type"] == "application/json"
    return str(body["error"]["code"])


async def until(holds: Callable[[], object]) -> None:
    """Let the others run until something holds."""
    while not holds():  # noqa: ASYNC110 - what is waited for happens in other people's code, which sets no event
        await asyncio.sleep(0)
