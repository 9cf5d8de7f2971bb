"""Messages over HTTP from a process of its own, at a rate or as fast as they are taken; prints what came of them.

    python -m bench.load URL TOKEN --seconds 60 --rate 1000 --connections 64 --chats 10000

With a rate the load does not wait for the server: a message that is late counts from when it should have left.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

TEXT = "a message of usual length, as people send them"


@dataclass
class Tally:
    took_ms: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    started: float = field(default_factory=time.perf_counter)
    sent: int = 0

    def summary(self) -> dict[str, object]:
        seconds = time.perf_counter() - self.started
        ordered = sorted(self.took_ms)

        def at(share: float) -> float:
            return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else 0.0

        return {
            "seconds": round(seconds, 2),
            "accepted_per_s": round(self.statuses[202] / seconds, 1),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "latency_ms": {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)},
        }


class Connection:
    """One keep-alive connection, and nothing more of HTTP than that needs."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._host, self._port, self._token = host, port, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(
            f"POST /v1/messages HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        return status


def body_of(chat: int, id: str) -> bytes:
    return json.dumps({"chat": f"c{chat}", "sender": f"s{chat}", "id": id, "text": TEXT}).encode()


async def one(connection: Connection, tally: Tally, due: float, body: bytes) -> None:
    status = await connection.post(body)
    tally.took_ms.append((time.perf_counter() - due) * 1000)
    tally.statuses[status] += 1


async def load(options: argparse.Namespace) -> dict[str, object]:
    address = urlsplit(options.url)
    tally, end = Tally(), time.perf_counter() + options.seconds
    label = f"{time.time_ns()}-"

    async def sender() -> None:
        connection = Connection(address.hostname or "", address.port or 80, options.token)
        while True:
            number, tally.sent = tally.sent, tally.sent + 1
            due = tally.started + number / options.rate if options.rate else time.perf_counter()
            if due >= end or time.perf_counter() >= end + options.seconds:
                return
            if due > time.perf_counter():
                await asyncio.sleep(due - time.perf_counter())
            await one(connection, tally, due, body_of(number % options.chats, f"{label}{number}"))

    await asyncio.gather(*(sender() for _ in range(options.connections)))
    return tally.summary()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load")
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=0, help="per second; 0 sends as fast as messages are taken")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--chats", type=int, default=10_000)
    print(json.dumps(asyncio.run(load(parser.parse_args()))))


if __name__ == "__main__":
    main()
