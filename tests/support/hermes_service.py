"""A home of Hermes whose turns go to a fake Hindsight and a fake Honcho, and what arrived there."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.hermes.home import HermesHome, find_home
from holdfast.hermes.plugin import HoldfastMemory
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer


@dataclass
class MemoryServers:
    hindsight: FakeHindsight
    honcho: HonchoServer

    def at_hindsight(self) -> list[str]:
        """The stored texts of every bank."""
        return [document for name in self.hindsight.banks for document in self.hindsight.texts(name)]

    def at_honcho(self) -> list[tuple[str, str]]:
        """The session and the text of every message."""
        return [
            (message["session_id"], message["content"])
            for workspace in self.honcho.workspaces.values()
            for message in workspace.messages
        ]


@asynccontextmanager
async def memory_servers() -> AsyncIterator[MemoryServers]:
    async with FakeHindsight() as hindsight, HonchoServer() as honcho:
        yield MemoryServers(hindsight, honcho)


def make_home(folder: Path, servers: MemoryServers | None = None) -> HermesHome:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("model: x\n")
    if servers is not None:
        (folder / "hindsight").mkdir(exist_ok=True)
        hindsight = {"mode": "local_external", "api_url": servers.hindsight.url, "bank_id": "hermes"}
        (folder / "hindsight" / "config.json").write_text(json.dumps(hindsight))
        honcho = {"baseUrl": servers.honcho.url, "workspace": "hermes", "enabled": True}
        (folder / "honcho.json").write_text(json.dumps(honcho))
    return find_home(folder, {})


def agent_of(home: HermesHome, session: str = "S", **about: str) -> HoldfastMemory:
    made = HoldfastMemory()
    made.initialize(session, hermes_home=str(home.path), agent_context="primary", **{"platform": "cli", **about})
    return made
