"""kill -9 of Hermes, of the process beside it, and of both: nothing that `sync_turn` acknowledged is lost, doubled or
filed in another session, at Hindsight and at Honcho.

A turn that was not acknowledged may arrive or not, but never twice. The short run is part of every test run; the
hundred runs are marked `soak`.
"""

import asyncio
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.hermes.plugin import client
from tests.support.hermes_service import make_home, memory_servers

WRITER = Path(__file__).with_name("hermes_writer.py")
SESSIONS = ("S0", "S1", "S2")
PIPE = asyncio.subprocess.PIPE


class Campaign:
    """One home, a writer and a server that keep dying, and what was acknowledged."""

    def __init__(self, home, seed):
        self.home = home
        self.chance = random.Random(seed)
        self.acknowledged: list[tuple[str, str]] = []
        self.lives = 0
        self.writer: Any = None  # a process, once it was started
        self.server: Any = None

    async def start_writer(self):
        self.lives += 1
        command = (sys.executable, str(WRITER), str(self.home.path), f"life{self.lives}")
        self.writer = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=os.environ)

    async def start_server(self):
        command = (sys.executable, "-m", "holdfast", "hermes", "serve", str(self.home.path), "--json")
        self.server = await asyncio.create_subprocess_exec(*command, stdout=PIPE, env=os.environ)
        assert self.server.stdout is not None
        assert await self.server.stdout.readline(), "the process beside Hermes did not start"

    async def say(self, count, *, wait=True):
        """Let the writer write turns. Without waiting, the last of them may be under way when it dies."""
        assert self.writer is not None
        assert self.writer.stdin is not None
        for _ in range(count):
            self.writer.stdin.write(f"{self.chance.choice(SESSIONS)}\n".encode())
        await self.writer.stdin.drain()
        for _ in range(count if wait else self.chance.randint(0, count)):
            await self._hear()

    async def _hear(self):
        line = await self.writer.stdout.readline()
        if line.endswith(b"\n"):
            session, _, text = line.decode().rstrip("\n").partition("\t")
            self.acknowledged.append((session, text))
        return line

    async def kill_writer(self):
        self.writer.kill()
        while await self._hear():
            pass  # what it acknowledged before it died
        await self.writer.wait()

    async def kill_server(self):
        self.server.kill()
        await self.server.wait()

    async def round(self):
        await self.start_writer()
        await self.say(self.chance.randint(1, 8))
        await self.start_server()
        await self.say(self.chance.randint(2, 12), wait=False)
        kills = self.chance.sample([self.kill_writer, self.kill_server], 2)
        await kills[0]()
        if self.chance.random() < 0.5:
            await asyncio.to_thread(client.ask, self.home.path, {"op": "settled", "budget_ms": 50}, 1.0)
        await kills[1]()

    async def settle(self):
        await self.start_server()
        while True:
            question = {"op": "settled", "budget_ms": 8_000}
            answer = await asyncio.to_thread(client.ask, self.home.path, question, 60.0)
            if answer is not None and answer.get("settled"):
                break
        self.server.terminate()
        assert await self.server.wait() == 0

    def stop(self):
        for process in (self.writer, self.server):
            if process is not None and process.returncode is None:
                process.kill()


async def run(tmp_path, seed, rounds):
    async with memory_servers() as servers:
        home = make_home(tmp_path / "home", servers)
        campaign = Campaign(home, seed)
        try:
            for _ in range(rounds):
                await campaign.round()
            await campaign.settle()
        finally:
            campaign.stop()
        assert campaign.acknowledged
        stored = Counter(text for text in servers.at_hindsight())
        for session, text in campaign.acknowledged:
            holding = [document for document in stored.elements() if text in document]
            assert len(holding) == 1, f"at Hindsight {len(holding)} times: {text}"
            assert session in text
        said = Counter(text for _, text in servers.at_honcho() if " said in " in text)
        assert {text: said[text] for _, text in campaign.acknowledged} == {text: 1 for _, text in campaign.acknowledged}
        assert set(said.values()) == {1}, "nothing is doubled, acknowledged or not"
        places = {text: place for place, text in servers.at_honcho() if " said in " in text}
        by_session = {
            session: {places[text] for told, text in campaign.acknowledged if told == session} for session in SESSIONS
        }
        assert all(len(found) <= 1 for found in by_session.values()), by_session


@pytest.mark.timeout(600)
async def test_nothing_acknowledged_is_lost_or_doubled(tmp_path):
    await run(tmp_path, seed=14, rounds=2)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", range(10))
async def test_nothing_is_lost_in_a_hundred_runs(tmp_path, seed):
    await run(tmp_path, seed=seed, rounds=10)
