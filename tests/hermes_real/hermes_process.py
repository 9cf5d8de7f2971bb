"""A process of the real Hermes with one memory provider, and the services that the provider talks to."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.hermes.home import HermesHome, find_home
from holdfast.hermes.install import Installation, install_plugin
from holdfast.hermes.plugin import client
from holdfast.hermes.service import data_of, serving
from tests.hermes_real.hindsight_recorder import HindsightRecorder
from tests.support.hermes_service import MemoryServers, make_home, memory_servers
from tests.support.honcho_server import HonchoServer

DRIVEN = Path(__file__).with_name("driven_provider.py")


class HermesProcess:
    """Each call is one line to the process, answered when the provider returned."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def do(self, call: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"call": call, **arguments}).encode() + b"\n")
        await self.process.stdin.drain()
        line = await self.process.stdout.readline()
        assert line, f"Hermes ended in {call}"
        return json.loads(line)["result"]

    async def turns(self, session: str, *texts: str) -> None:
        for text in texts:
            await self.do("sync", session=session, user=text)


@asynccontextmanager
async def hermes(python: Path, provider: str, home: Path) -> AsyncIterator[HermesProcess]:
    """A process with the provider. At the end it is told nothing and ends as `os._exit` does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"HERMES_HOME": str(home), "HOME": str(home)}
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(DRIVEN), provider, str(home)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        cwd=home,
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n", "Hermes did not load the provider"
        yield HermesProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def own_hindsight(
    python: Path, home: Path, **settings: Any
) -> AsyncIterator[tuple[HermesProcess, HindsightRecorder]]:
    """Hermes with its own Hindsight plugin."""
    make_home(home)
    async with HindsightRecorder() as server:
        (home / "hindsight").mkdir()
        config = {"mode": "local_external", "api_url": server.url, "retain_async": False, **settings}
        (home / "hindsight" / "config.json").write_text(json.dumps(config))
        async with hermes(python, "hindsight", home) as process:
            yield process, server


@asynccontextmanager
async def own_honcho(python: Path, home: Path, **settings: Any) -> AsyncIterator[tuple[HermesProcess, HonchoServer]]:
    """Hermes with its own Honcho plugin."""
    make_home(home)
    async with HonchoServer() as server:
        host = {"enabled": True, "workspace": "hermes", "initOnSessionStart": True, **settings}
        (home / "honcho.json").write_text(json.dumps({"baseUrl": server.url, "apiKey": "k", "hosts": {"hermes": host}}))
        async with hermes(python, "honcho", home) as process:
            yield process, server


class Ours:
    """Hermes with our plugin, beside a Holdfast process."""

    def __init__(self, process: HermesProcess, servers: MemoryServers, home: HermesHome) -> None:
        self.process, self.servers, self.home = process, servers, home

    async def settle(self) -> None:
        """Wait until everything that was acknowledged is at both services."""
        while True:
            question = {"op": "settled", "budget_ms": 8_000}
            answer = await asyncio.to_thread(client.ask, self.home.path, question, 60.0)
            assert answer is not None, "the process beside Hermes does not answer"
            if answer.get("settled"):
                return

    def at_hindsight(self, text: str) -> int:
        return sum(text in document for document in self.servers.at_hindsight())

    def at_honcho(self, text: str) -> list[str]:
        """The sessions at Honcho that hold the text."""
        return [session for session, said in self.servers.at_honcho() if said == text]


@asynccontextmanager
async def with_ours(
    python: Path, home: Path, *, honcho: dict[str, Any] | None = None, hindsight: dict[str, Any] | None = None
) -> AsyncIterator[Ours]:
    async with memory_servers() as servers:
        made = make_home(home, servers)
        for file, changed in ((home / "honcho.json", honcho), (home / "hindsight" / "config.json", hindsight)):
            file.write_text(json.dumps({**json.loads(file.read_text()), **(changed or {})}))
        install_plugin(find_home(home, {}), Installation(python=python, starts=False), {}, home)
        async with serving(made, data_of(made)), hermes(python, "holdfast", home) as process:
            yield Ours(process, servers, made)
