"""A fake Honcho server for each test, and a provider that talks to it."""

import ssl

import httpx
import pytest

from tests.support.honcho_kit import provider_on
from tests.support.honcho_server import HonchoServer

CONTEXT = ssl.create_default_context()


@pytest.fixture(autouse=True)
def certificates(monkeypatch):
    """Every client loads the system's certificates, which takes most of a test's time; no test here speaks TLS."""
    monkeypatch.setattr(httpx._transports.default, "create_ssl_context", lambda *_, **__: CONTEXT)


@pytest.fixture
async def server():
    async with HonchoServer() as running:
        yield running


@pytest.fixture
async def provider(server):
    async with provider_on(server) as made:
        yield made
