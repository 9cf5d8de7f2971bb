"""The accept path alone behind HTTP, durable or not, for `bench.gateway`: no turn is run.

    python -m bench.serve FOLDER durable|volatile

`volatile` is the same server, the same checks and the same mailbox rules over a dictionary in RAM.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from holdfast.api.app import Setup, make_app
from holdfast.api.server import HttpServer, bind, url_of
from holdfast.inbox.message import (
    Accepted,
    AcceptOutcome,
    Arrival,
    Conflict,
    Duplicate,
    Limits,
    MailboxFull,
    MessageState,
)
from holdfast.runtime.app import open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.store.script import Call

TOKEN = "a-token-for-measuring-that-is-long-enough"
BODY_BYTES_MAX = 1_000_000


class Volatile:
    """`accept` over dictionaries: deduplicates, counts depth, keeps the message; forgets everything at the end."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], Arrival] = {}
        self._depth: dict[str, int] = {}

    async def write(self, call: Call[AcceptOutcome]) -> AcceptOutcome:
        made: Any = call.script
        return self._accept(*made.args[:2])

    def _accept(self, arrival: Arrival, limits: Limits) -> AcceptOutcome:
        key = (arrival.account, arrival.conversation, arrival.event_id)
        known = self._seen.get(key)
        if known is not None:
            same = known.body_hash == arrival.body_hash
            return Duplicate(known.message, MessageState.WAITING) if same else Conflict(known.message)
        address = str(arrival.address)
        depth = self._depth.get(address, 0)
        if depth >= limits.mailbox_depth_max:
            return MailboxFull(depth)
        self._seen[key], self._depth[address] = arrival, depth + 1
        return Accepted(arrival.message, arrival.new_mailbox, depth)


async def serve(folder: Path, kind: str) -> None:
    runtime = await open_runtime(folder, serve=False)
    if kind == "volatile":
        ports = replace(runtime.ports, db=cast("Any", Volatile()))
        runtime.gateway._ports = ports  # noqa: SLF001 - only what is measured differs
    async with runtime:
        await run(runtime)


async def run(runtime: Runtime) -> None:
    listening = bind("127.0.0.1", 0)
    setup = Setup(
        token=TOKEN,
        version="bench",
        body_bytes_max=BODY_BYTES_MAX,
        clock=runtime.clock,
        entropy=runtime.entropy,
        tasks=runtime.tasks,
    )
    server = HttpServer(make_app(runtime, setup), listening, runtime.clock, frame_bytes_max=BODY_BYTES_MAX)
    print(url_of(listening), flush=True)
    await server.run_until_stopped()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
