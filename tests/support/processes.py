"""Real processes for the tests: `holdfast up` on a free port of loopback, killed or stopped by its own id."""

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.patience import HANGS_S

TOKEN = "a-token-that-only-tests-know-and-nobody-guesses"
# For clients on loopback, where nothing is encrypted: without it each of them would read every certificate there is.
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def spawn(
    data: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    """`holdfast up`, which has not said anything yet."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "up", "--data", str(data), "--port", "0", "--json", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "HOLDFAST_TOKEN": TOKEN, **(environment or {})},
    )


@dataclass
class Up:
    """A running `holdfast up`."""

    process: asyncio.subprocess.Process
    url: str

    @classmethod
    async def start(cls, data: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> "Up":
        """Start it and wait until it says that it is ready."""
        process = await spawn(data, *arguments, environment=environment)
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line, f"holdfast up ended with {await process.wait()} before it was ready"
        return cls(process, json.loads(line)["url"])

    def client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=HANGS_S, verify=PLAIN)

    async def kill(self) -> None:
        """kill -9: no handler, no flush, no goodbye."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()
