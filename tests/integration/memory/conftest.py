"""A world for each test, whose loop is closed behind it, and a fake Honcho server for those who ask for one."""

import ssl

import httpx
import pytest

from tests.honcho_server import HonchoServer
from tests.integration.memory.world import World

CONTEXT = ssl.create_default_context()


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    with made.loop:
        yield made


@pytest.fixture
async def server(monkeypatch):
    """Every client loads the system's certificates, which takes most of a test's time; no test here speaks TLS."""
    monkeypatch.setattr(httpx._transports.default, "create_ssl_context", lambda *_, **__: CONTEXT)
    async with HonchoServer() as running:
        yield running
