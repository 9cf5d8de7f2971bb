"""Real processes for the tests: `holdfast up` on a free port of loopback, killed or stopped by its own id."""

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.patience import HANGS_S
from tests.support.warm import WarmProcess, is_fresh

TOKEN = "a-token-that-only-tests-know-and-nobody-guesses"
# For clients on loopback, where nothing is encrypted: without it each of them would read every certificate there is.
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
Process = asyncio.subprocess.Process | WarmProcess


async def start(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    stderr: int | None = None,
    preload: Sequence[str] = (),
) -> Process:
    """`holdfast` with these arguments, without input. `environment` is added to the variables of the tests.

    The process comes without the time of its imports unless the environment needs an interpreter of its own; modules
    that many of them import while they run are named by `preload` (warm.py).
    """
    variables = {**os.environ, **(environment or {})}
    if not is_fresh(variables):
        return await WarmProcess.start(*arguments, environment=variables, stderr=stderr, preload=preload)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env=variables,
    )


async def spawn(
    data: Path, *arguments: str, environment: Mapping[str, str] | None = None, preload: Sequence[str] = ()
) -> Process:
    """`holdfast up`, which has not said anything yet."""
    words = ("up", "--data", str(data), "--port", "0", "--json", *arguments)
    return await start(*words, environment={"HOLDFAST_TOKEN": TOKEN, **(environment or {})}, preload=preload)


@dataclass
class Up:
    """A running `holdfast up`."""

    process: Process
    url: str

    @classmethod
    async def start(
        cls, data: Path, *arguments: str, environment: Mapping[str, str] | None = None, preload: Sequence[str] = ()
    ) -> "Up":
        """Start it and wait until it says that it is ready."""
        process = await spawn(data, *arguments, environment=environment, preload=preload)
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
