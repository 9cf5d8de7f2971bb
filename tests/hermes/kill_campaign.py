"""A campaign of kills: one home, a Hermes and a process beside it that keep dying, and what was acknowledged.

Each round kills Hermes, the process beside it, or both, at a point that the seed chooses: after some acknowledgements,
or while a request of the process is at Hindsight or at Honcho. `check` compares what was acknowledged with what both
services hold.
"""

import asyncio
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from holdfast.hermes.home import HermesHome
from holdfast.hermes.plugin import client
from tests.support.hermes_service import MemoryServers, make_home
from tests.support.processes import start
from tests.support.warm import SERVICES

SESSIONS = ("S0", "S1", "S2")
VICTIMS = ("hermes", "ours", "both")
PIPE = asyncio.subprocess.PIPE
TURN = re.compile(r"life\d+\.\d+ said in S\d")
T = TypeVar("T")


class Watched(list[T]):
    """A list of requests that calls `seen` at each new one, before the request is answered."""

    def __init__(self, seen: Callable[[], None]) -> None:
        super().__init__()
        self._seen = seen

    def append(self, request: T) -> None:
        super().append(request)
        self._seen()


def make_campaign_home(folder: Path, servers: MemoryServers) -> HermesHome:
    """A home whose sessions are sessions at Honcho too, so that a turn in another one is seen there."""
    home = make_home(folder, servers)
    file = home.path / "honcho.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sessionStrategy": "per-session"}))
    return home


class Campaign:
    """`writer` is the command of a Hermes, without its last argument: the name of its life."""

    def __init__(
        self,
        home: HermesHome,
        servers: MemoryServers,
        seed: int,
        *,
        writer: Sequence[str | Path],
        environment: dict[str, str] | None = None,
    ) -> None:
        self.home, self.servers = home, servers
        self.chance = random.Random(seed)
        self.acknowledged: list[tuple[str, str]] = []
        self.kills: Counter[str] = Counter()
        self.lives = 0
        self.hermes: Any = None  # a process, once it was started
        self.ours: Any = None
        self._writer = [str(part) for part in writer]
        self._environment = environment or dict(os.environ)
        self._requests_left = 0  # until the process beside Hermes is killed
        servers.hindsight.requests = Watched(self._request_came)
        servers.honcho.requests = Watched(self._request_came)

    async def run(self, rounds: int) -> None:
        try:
            for _ in range(rounds):
                await self._round()
            await self._settle()
        finally:
            self._stop()

    async def _round(self) -> None:
        victim = self.chance.choice(VICTIMS)
        await self._live()
        await self._say(self.chance.randint(1, 8))
        if self.ours is None:
            await self._start_ours()
        if victim != "hermes" and self.chance.random() < 0.5:
            self._requests_left = self.chance.randint(1, 12)
        await self._say(self.chance.randint(2, 12), heard=self.chance.random())
        acts = {"hermes": [self._kill_hermes], "ours": [self._kill_ours], "both": [self._kill_hermes, self._kill_ours]}
        for kill in self.chance.sample(acts[victim], len(acts[victim])):
            await kill()
        self.kills[victim] += 1

    async def _live(self) -> None:
        if self.hermes is None:
            self.lives += 1
            command = (*self._writer, f"life{self.lives}")
            self.hermes = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL, env=self._environment
            )

    async def _start_ours(self) -> None:
        self.ours = await start("hermes", "serve", str(self.home.path), "--json", preload=SERVICES)
        assert await self.ours.stdout.readline(), "the process beside Hermes did not start"

    async def _say(self, count: int, *, heard: float = 1.0) -> None:
        """Let Hermes end turns. Of those whose acknowledgement is not awaited some are under way at the next kill."""
        for _ in range(count):
            self.hermes.stdin.write(f"{self.chance.choice(SESSIONS)}\n".encode())
        await self.hermes.stdin.drain()
        for _ in range(round(count * heard)):
            assert await self._hear(), "Hermes ended by itself"

    async def _hear(self) -> bool:
        line = await self.hermes.stdout.readline()
        if line.endswith(b"\n"):
            session, _, text = line.decode().rstrip("\n").partition("\t")
            self.acknowledged.append((session, text))
        return bool(line)

    async def _kill_hermes(self) -> None:
        self.hermes.kill()
        while await self._hear():
            pass  # what it acknowledged before it died
        await self.hermes.wait()
        self.hermes = None

    async def _kill_ours(self) -> None:
        """Kill the process beside Hermes, unless a request kills it first: then it has the time to make requests."""
        if self._requests_left or self.chance.random() < 0.3:
            question = {"op": "settled", "budget_ms": 8_000 if self._requests_left else 50}
            await asyncio.to_thread(client.ask, self.home.path, question, 10.0)
        self._requests_left = 0
        if self.ours.returncode is None:
            self.ours.kill()
        await self.ours.wait()
        self.ours = None

    def _request_came(self) -> None:
        if self._requests_left > 0:
            self._requests_left -= 1
            if self._requests_left == 0 and self.ours is not None and self.ours.returncode is None:
                self.ours.kill()
                self.kills["in a request"] += 1

    async def _settle(self) -> None:
        if self.hermes is not None:
            await self._kill_hermes()
        if self.ours is None:
            await self._start_ours()
        is_settled = False
        while not is_settled:
            question = {"op": "settled", "budget_ms": 8_000}
            answer = await asyncio.to_thread(client.ask, self.home.path, question, 60.0)
            assert self.ours.returncode is None, "the process beside Hermes ended"
            is_settled = answer is not None and bool(answer.get("settled"))
        self.ours.terminate()
        assert await self.ours.wait() == 0

    def _stop(self) -> None:
        for process in (self.hermes, self.ours):
            if process is not None and process.returncode is None:
                process.kill()

    def check(self) -> dict[str, int]:
        """Nothing acknowledged is lost, nothing is doubled, and every turn is in its session. Returns the figures."""
        at_honcho = [(place, text) for place, text in self.servers.at_honcho() if TURN.fullmatch(text)]
        at_hindsight = [(document["document_metadata"]["session"], text) for document, text in self._documents()]
        acknowledged = {text for _, text in self.acknowledged}
        assert len(acknowledged) == len(self.acknowledged) > 0
        for held in (at_honcho, at_hindsight):
            counts = Counter(text for _, text in held)
            assert not acknowledged - set(counts), "lost"
            assert set(counts.values()) == {1}, "doubled"
        assert [(told, text) for told, text in at_hindsight if not text.endswith(f" {told}")] == [], "misfiled"
        rooms = {(place, text.rpartition(" ")[2]) for place, text in at_honcho}
        assert len({place for place, _ in rooms}) == len({session for _, session in rooms}) == len(rooms), "misfiled"
        assert {text for _, text in at_honcho} == {text for _, text in at_hindsight}
        return {"acknowledged": len(acknowledged), "stored": len(at_honcho), "lives": self.lives, **self.kills}

    def _documents(self) -> Iterator[tuple[dict[str, Any], str]]:
        for bank in self.servers.hindsight.banks.values():
            for document in bank.documents.values():
                for text in TURN.findall(document["original_text"]):
                    yield document, text
