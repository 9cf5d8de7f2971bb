"""Strangers cannot exhaust the gateway: their connections and bodies are bounded in number, memory and time, and
authorised clients are served meanwhile. Against a running `holdfast up`, over real sockets.
"""

import contextlib
import errno
import socket
import time
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.patience import within
from tests.support.processes import Up

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

pytestmark = pytest.mark.asyncio(loop_scope="module")
HALF_OPEN, BODIES = 2_000, 1_000
BODY_BYTES = 1_600_000
GROWTH_MAX = 50_000_000
SOON_S = 20.0  # of a quiet machine; a longer time means that it hangs
PIECE = b"x" * 65_536


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def up(tmp_path_factory):
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, HALF_OPEN + BODIES + 1_000)), hard))
    running = await Up.start(tmp_path_factory.mktemp("flood") / "data", environment={"HOLDFAST_LOG": ""})
    async with running.client() as client:
        for n in range(20):  # so that modules loaded at the first use are loaded
            await client.post("/v1/messages", json={"chat": "warm", "id": str(n), "text": "hello"})
            assert (await client.get("/readyz")).status_code == 200
    try:
        yield running
    finally:
        await running.stop()


def memory_of(pid):
    """What the process has for itself, in bytes; 0 where the system does not tell."""
    if not Path("/proc/self/status").exists():
        return 0
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024


class Crowd:
    """Connections that one program holds, without a task for each."""

    def __init__(self, url):
        host, port = url.removeprefix("http://").split(":")
        self._place = (host, int(port))
        self._open = []

    def connect(self):
        one = socket.socket()
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            one.connect(self._place)
        self._open.append(one)
        return one

    def push(self, one, data):
        """As much as the other side takes now; what it has cut off is gone."""
        sent = 0
        with contextlib.suppress(BlockingIOError):
            try:
                while sent < len(data):
                    sent += one.send(data[sent : sent + len(PIECE)])
            except OSError as error:
                if error.errno not in {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ECONNREFUSED}:
                    raise
                return None
        return sent

    def answers(self):
        """The status of each answer that came."""
        found = []
        for one in self._open:
            with contextlib.suppress(OSError):
                head = one.recv(4_096)
                if head.startswith(b"HTTP/1.1 "):
                    found.append(int(head.split(b" ")[1]))
        return found

    def close(self):
        for one in self._open:
            one.close()


async def answered(up, n):
    """How long a rightful request takes, from its connection to its answer."""
    began = time.perf_counter()
    async with up.client() as client, within(SOON_S):
        health = await client.get("/healthz")
        said = await client.post("/v1/messages", json={"chat": "rightful", "id": str(n), "text": "hello"})
    assert (health.status_code, said.status_code) == (200, 202)
    return time.perf_counter() - began


async def test_half_open_connections_and_bodies_at_unknown_hooks_cost_no_memory_and_no_rightful_request(up):
    """Finding 10: 600 such connections took the process from 198 to 894 MB, and /healthz timed out."""
    before, peak, took = memory_of(up.process.pid), 0, []
    crowd = Crowd(up.url)
    head = b"POST /v1/hooks/main/nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    bodies: list[socket.socket] = []
    try:
        for n in range(HALF_OPEN):
            crowd.push(crowd.connect(), b"POST /v1/hooks/main/nowhere HTTP/1.1\r\nHost: 127")
            if n % 2 == 0 and len(bodies) < BODIES:
                one = crowd.connect()
                crowd.push(one, head + f"Content-Length: {BODY_BYTES}\r\n\r\n".encode())
                bodies.append(one)
            if n % 500 == 499:
                took.append(await answered(up, n))
                peak = max(peak, memory_of(up.process.pid))
        for turn in range(25):  # a whole body in pieces, as far as anybody takes it
            for one in bodies:
                crowd.push(one, PIECE)
            peak = max(peak, memory_of(up.process.pid))
            if turn % 8 == 0:
                took.append(await answered(up, f"body {turn}"))
        peak = max(peak, memory_of(up.process.pid))
        told = crowd.answers()
    finally:
        crowd.close()
    print(f"\ngrew by {(peak - before) / 1e6:.1f} MB; rightful requests took {[round(one, 2) for one in took]} s")  # noqa: T201 - a measurement
    assert peak - before < GROWTH_MAX
    assert set(told) <= {404, 408, 429, 503}
    await answered(up, "after")
