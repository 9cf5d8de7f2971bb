"""A world for each test, whose loop is closed after it, and a fake Honcho server for the tests that ask for one."""

import ssl

import httpx
import pytest

from holdfast.memory import dispatcher, forgetter, notes_service
from tests.support.honcho_server import HonchoServer
from tests.support.memory_world import World

CONTEXT = ssl.create_default_context()


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    with made.loop:
        yield made


@pytest.fixture
def hours(monkeypatch):
    """For tests that last hours: pollers of other processes' changes poll less often.

    There is no other process, and changes of this one are notified.
    """
    monkeypatch.setattr(forgetter, "POLL_MS", 60_000)
    monkeypatch.setattr(dispatcher, "POLL_MS", 5_000)
    monkeypatch.setattr(notes_service, "LOOK_EVERY_MS", 60_000)


@pytest.fixture
async def server(monkeypatch):
    """Every client loads the system's certificates, which takes most of a test's time; no test here speaks TLS."""
    monkeypatch.setattr(httpx._transports.default, "create_ssl_context", lambda *_, **__: CONTEXT)
    async with HonchoServer() as running:
        yield running
