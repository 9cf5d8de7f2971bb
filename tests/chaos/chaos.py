"""Chaos: one real `holdfast up` that is killed every few seconds while its chats talk and the weather is bad.

The plan is made from a seed: when each chat speaks, also while the process is down, and when something goes wrong.
Then the weather calms down, the process is started once more, and `quiet` waits until nothing is on its way.
"""

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import eq
from pathlib import Path

from holdfast.api.shapes.monitoring import ON_ITS_WAY
from holdfast.outbox.reply_sql import list_replies
from holdfast.runtime.app import open_runtime
from holdfast.store.ports import Database
from tests.chaos.fleet import Fleet
from tests.chaos.weather import Weather
from tests.support.patience import within
from tests.support.processes import Up, spawn
from tests.support.warm import PLATFORMS

WARM_S = 60.0
STILL_S = 420  # longer than any pause before a reply is tried again
LOOK_S = 0.5
LIFE_S = (0.3, 4.0)  # to the kill
AWAKE_S = 20.0
STILLBORN, YOUNG_S = 0.2, (0.3, 2.0)  # how many are killed while they start, and when
STORMY = 0.8  # how much must be answered before the weather calms down
GUSTS_PER_S = 4.0
PROXIES = {f"{name}_{end}": "" for name in ("HTTP", "HTTPS", "http", "https") for end in ("PROXY", "proxy")}


@dataclass
class Chaos:
    data: Path
    fleet: Fleet
    seed: int
    messages_per_s: float
    kills: int = 0
    rss_mb: int = 0
    ready_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._weather = Weather(self.fleet, random.Random(self.seed + 1))
        config = self.data.parent / "holdfast.toml"
        config.write_text(self.fleet.config, encoding="utf-8")
        self._arguments = ("--config", str(config))
        self._environment = {**self.fleet.environment, **PROXIES}

    async def run(self, duration_s: float) -> None:
        await self._warm_up()
        self._weather.rise()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._talk(duration_s))
            group.create_task(self._blow(duration_s))
            group.create_task(self._die(duration_s))
        async with self.started() as up:
            await self.quiet(STORMY)
            self._weather.calm()
            await self.quiet()
            assert await up.stop() == 0

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Up]:
        """A process that is ready. It is killed at an arbitrary moment."""
        began = time.monotonic()
        up = await Up.start(self.data, *self._arguments, environment=self._environment, preload=PLATFORMS)
        self.ready_s.append(time.monotonic() - began)
        try:
            yield up
        finally:
            if up.process.returncode is None:
                await up.kill()

    async def _warm_up(self) -> None:
        """A first message in every chat, in fair weather: a bot can only catch up in chats that it knows."""
        async with self.started() as up:
            await self._until(self.fleet.is_connected, WARM_S)
            for chat in self.fleet.chats:
                chat.say()
            await self._until(lambda: self.fleet.answered == self.fleet.said, WARM_S)
            self.rss_mb = rss_mb(up.process.pid)

    # --- while it lasts

    async def _talk(self, duration_s: float) -> None:
        """Every chat at its own moments; some messages come in a bunch."""
        began = asyncio.get_running_loop().time()
        moments = (self._chance.random() * duration_s for _ in range(int(duration_s * self.messages_per_s)))
        for moment in sorted(moments):
            await at(began + moment)
            chat = self._chance.choice(self.fleet.chats)
            for _ in range(self._chance.choice((1, 1, 1, 3))):
                chat.say()

    async def _blow(self, duration_s: float) -> None:
        began = asyncio.get_running_loop().time()
        for gust in range(int(duration_s * GUSTS_PER_S)):
            await at(began + gust / GUSTS_PER_S)
            self._weather.blow()

    async def _die(self, duration_s: float) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + duration_s
        while loop.time() < ends:
            if self._chance.random() < STILLBORN:
                await self._die_young()
            else:
                polls = self.fleet.polls()
                async with self.started():
                    await self._awake(polls)
                    await at(loop.time() + self._chance.uniform(*LIFE_S))
            self.kills += 1

    async def _awake(self, polls: Sequence[int]) -> None:
        """Every second life may begin to talk on a slow machine too: its end is counted from its first polls on."""
        if self._chance.random() < 0.5:
            ends = asyncio.get_running_loop().time() + AWAKE_S
            while asyncio.get_running_loop().time() < ends and any(map(eq, polls, self.fleet.polls())):
                await at(asyncio.get_running_loop().time() + LOOK_S)

    async def _die_young(self) -> None:
        """Killed while it starts, or soon after."""
        process = await spawn(self.data, *self._arguments, environment=self._environment, preload=PLATFORMS)
        await at(asyncio.get_running_loop().time() + self._chance.uniform(*YOUNG_S))
        process.kill()
        await process.wait()

    # --- the end of it

    async def quiet(self, share: float = 1.0) -> None:
        """Until that share of all messages has a reply that is settled, or for a long time nothing has moved: the proof
        says what is missing then."""
        loop = asyncio.get_running_loop()
        async with await open_runtime(self.data, serve=False) as runtime:
            settled, moved_at = -1, loop.time()
            while settled < self.fleet.said * share and loop.time() < moved_at + STILL_S:
                found = await self._settled(runtime.db)
                settled, moved_at = found, loop.time() if found > settled else moved_at
                await at(loop.time() + LOOK_S)

    async def _settled(self, db: Database) -> int:
        """Replies that are not on their way any more."""
        count, after = 0, 0
        while page := await db.read(list_replies(after=after, limit=1_000)):
            count += sum(reply.state not in ON_ITS_WAY for reply in page)
            after = page[-1].n
        return count

    async def _until(self, is_so: Callable[[], bool], within_s: float) -> None:
        async with within(within_s):
            while not is_so():
                await at(asyncio.get_running_loop().time() + LOOK_S)


def rss_mb(pid: int) -> int:
    """What the process holds in memory; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) // 1024 if found else 0


async def at(moment: float) -> None:
    """When the loop's clock shows that moment."""
    reached = asyncio.Event()
    asyncio.get_running_loop().call_at(moment, reached.set)
    await reached.wait()
