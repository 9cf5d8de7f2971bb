import secrets

import asyncpg  # type: ignore[import-untyped]
import pytest


@pytest.fixture
async def address(postgres_server):
    """A database of its own on the test server, dropped at the end."""
    name = f"runtime_{secrets.token_hex(8)}"
    admin = await asyncpg.connect(postgres_server.dsn)
    try:
        await admin.execute(f"create database {name}")
        yield postgres_server.dsn.replace("/postgres?", f"/{name}?")
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()
