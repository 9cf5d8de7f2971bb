"""Processes that skip the imports of Holdfast, which take longer than most commands.

A server that has imported the program (warm_server.py) forks each of them. Such a process has its own memory, streams,
signals and exit code, and dies by `kill -9` like any other; only its interpreter was started by somebody else. What
depends on the start of the interpreter needs a fresh one: the variables that Python reads then, the environment as
`/proc` shows it, a terminal. `is_fresh` says which commands get one. Each process of the tests has a server of its own,
started by the first command. Commands that share other variables or options of the interpreter have another server.
"""

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import TypeAlias

from tests.support.patience import HANGS_S
from tests.support.warm_server import LENGTH, STATUS

SERVER = Path(__file__).with_name("warm_server.py")
HOLDFAST = ("-m", "holdfast")
# The signals that a process ignores if the process that starts it does.
INHERITED = (signal.SIGHUP, signal.SIGINT) if hasattr(signal, "SIGHUP") else ()
# To preload where processes talk to the platforms, to memory services, or to a model of a vendor.
PLATFORMS = ("holdfast.channels.discord", "holdfast.channels.slack", "holdfast.channels.telegram")
SERVICES = ("holdfast.providers.hindsight.provider", "holdfast.providers.honcho.provider")
VENDORS = ("holdfast.models.pydantic_model", "pydantic_ai.models.openai")


def is_fresh(environment: Mapping[str, str]) -> bool:
    """Whether a command with these variables needs an interpreter of its own."""
    read_at_start = {name for name in environment if name.startswith("PYTHON")} - {"PYTHONWARNINGS"}
    return not hasattr(os, "fork") or any(environment[name] != os.environ.get(name) for name in read_at_start)


class WarmServer:
    """Has imported some modules, by default those of every command, with some options and variables of Python."""

    def __init__(
        self, modules: Sequence[str] = (), *, options: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> None:
        self._ours, theirs = socket.socketpair()
        self._one_at_a_time = threading.Lock()
        with theirs:
            command = [sys.executable, *options, "-P", str(SERVER), str(theirs.fileno()), *modules]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=variables)
        atexit.register(self._close)

    def _close(self) -> None:
        self._ours.close()
        self._process.wait()

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        streams: Sequence[int],
        *,
        preload: Sequence[str] = (),
        folder: Path | None = None,
    ) -> "Status":
        """Start `python` with `-m holdfast` or `-c code`. `preload` names modules for the commands after it too."""
        request = {
            "command": command,
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
            "preload": preload,
            "ignored": [one for one in INHERITED if signal.getsignal(one) is signal.SIG_IGN],
        }
        body = json.dumps(request).encode("utf-8", "surrogateescape")
        ours, theirs = socket.socketpair()
        with theirs, self._one_at_a_time:
            socket.send_fds(self._ours, [LENGTH.pack(len(body))], [*streams, theirs.fileno()])
            self._ours.sendall(body)
        return Status(ours)

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """What `subprocess.run` would do with `["python", *command]`, without input."""
        with TemporaryFile() as out, TemporaryFile() as errors, Path(os.devnull).open("rb") as nothing:
            streams = (nothing.fileno(), out.fileno(), errors.fileno())
            code = self.start(command, environment, streams, folder=folder).wait(HANGS_S)
            for written in (out, errors):
                written.seek(0)
            return subprocess.CompletedProcess([*command], code, out.read().decode(), errors.read().decode())


@cache
def warm_server() -> WarmServer:
    return WarmServer()


class Status:
    """What the server says of a process: first its id, at last its exit code."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = self._read()

    def _read(self) -> int:
        found = self._told.recv(STATUS.size, socket.MSG_WAITALL)
        assert found, "the server of warm processes ended"
        return int(STATUS.unpack(found)[0])

    def wait(self, timeout_s: float) -> int:
        self._told.settimeout(timeout_s)
        with self._told:
            return self._read()

    async def exit_code(self) -> int:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._told, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._told)
        with self._told:
            return self._read()


class WarmProcess:
    """A process of a warm server, with the part of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, status: Status, stdout: asyncio.StreamReader) -> None:
        self.pid = status.pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ending = asyncio.create_task(self._end(status))

    @classmethod
    async def start(
        cls,
        *arguments: str,
        environment: Mapping[str, str],
        stderr: int | None = None,
        preload: Sequence[str] = (),
    ) -> "WarmProcess":
        reads, writes = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        errors = {None: 2, asyncio.subprocess.DEVNULL: nothing}[stderr]
        status = warm_server().start(HOLDFAST + arguments, environment, (nothing, writes, errors), preload=preload)
        os.close(nothing)
        os.close(writes)
        stdout = asyncio.StreamReader()
        opened = os.fdopen(reads, "rb")
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), opened)
        return cls(status, stdout)

    async def _end(self, status: Status) -> None:
        self.returncode = await status.exit_code()

    async def wait(self) -> int:
        await asyncio.shield(self._ending)
        assert self.returncode is not None
        return self.returncode

    async def communicate(self) -> tuple[bytes, None]:
        """What it wrote until its end."""
        said = await self.stdout.read()
        await self.wait()
        return said, None

    def send_signal(self, number: int) -> None:
        """The server may have seen the end of the process before its exit code is known here."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def start_blocking(*arguments: str, environment: Mapping[str, str]) -> "BlockingProcess":
    """`holdfast` with these arguments and pipes of text for tests without an event loop."""
    if not is_fresh(environment):
        return BlockingWarmProcess(*arguments, environment=environment)
    command, pipe = (sys.executable, "-m", "holdfast", *arguments), subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8", env=dict(environment)
    )


class BlockingWarmProcess:
    """A process of a warm server, with the part of `subprocess.Popen` that tests use. Its streams are text."""

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        (stdin, writes), (reads, stdout), (reads_errors, stderr) = (os.pipe() for _ in range(3))
        self._status = warm_server().start(HOLDFAST + arguments, environment, (stdin, stdout, stderr))
        for one in (stdin, stdout, stderr):
            os.close(one)
        self.pid = self._status.pid
        self.returncode: int | None = None
        self.stdin = os.fdopen(writes, "w", encoding="utf-8")
        self.stdout = os.fdopen(reads, encoding="utf-8")
        self.stderr = os.fdopen(reads_errors, encoding="utf-8")

    def communicate(self, input: str = "", *, timeout: float) -> tuple[str, str]:
        """Give it its whole input. What it wrote on stdout and stderr until its end."""
        with ThreadPoolExecutor(2) as threads:
            giving = threads.submit(self._give, input)
            errors = threads.submit(self.stderr.read)
            said = self.stdout.read()
            giving.result()
            self.wait(timeout=timeout)
            return said, errors.result()

    def _give(self, text: str) -> None:
        with suppress(BrokenPipeError), self.stdin:  # it may end before it has read everything
            self.stdin.write(text)

    def wait(self, *, timeout: float) -> int:
        if self.returncode is None:
            self.returncode = self._status.wait(timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "BlockingWarmProcess":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the streams and wait for its end, as `Popen` does."""
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                stream.close()
        self.wait(timeout=HANGS_S)


BlockingProcess: TypeAlias = "subprocess.Popen[str] | BlockingWarmProcess"
