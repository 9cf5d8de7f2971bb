"""kill -9 of the real process, over and over, while eight chats send.

Every acknowledged message is in exactly one turn, per chat in the order it was sent, with one reply. The senders do
what platforms do: they repeat a message until it is acknowledged, sometimes once more.

Rules: R39.
"""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import MessageId
from holdfast.runtime.app import open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.turns.journal import AssistantSaid, UserSaid
from tests.support.processes import Up

CHATS = [f"chat{number}" for number in range(8)]
LONG_LIFE_EVERY = 6  # so often a process lives until everything is answered, however slow the machine is
MESSAGES_PER_LIFE = 4  # of each chat, so that a process that lives long does not drown in them


class Harness:
    """One data folder, a process that keeps dying, and senders that never give up."""

    def __init__(self, data: Path, seed: int) -> None:
        self.data = data
        self.chance = random.Random(seed)
        self.acknowledged: dict[str, list[MessageId]] = {chat: [] for chat in CHATS}
        self.answered = dict.fromkeys(CHATS, 0)  # as far as somebody looked
        self.acknowledgements = 0
        self.kills = 0
        self._left = dict.fromkeys(CHATS, 0)  # messages that each may still send in this life
        self._moved = asyncio.Condition()
        self._client: httpx.AsyncClient | None = None  # where messages may be sent
        self._clients = AsyncExitStack()  # closed at the end, when no sender waits for an answer of a dead process
        self._newest: Up | None = None
        self._done = False

    async def run(self, kills: int) -> None:
        try:
            async with asyncio.TaskGroup() as senders:  # one that fails ends all
                for chat in CHATS:
                    senders.create_task(self._send(chat))
                await self._die(kills)
                self._done = True
                up, _ = await self._start()
            assert await up.stop() == 0
        finally:
            await self._clients.aclose()
            if self._newest is not None and self._newest.process.returncode is None:
                await self._newest.kill()

    async def _start(self) -> tuple[Up, httpx.AsyncClient]:
        """A process, and the client of all senders while it lives."""
        self._newest = await Up.start(self.data)
        self._left = dict.fromkeys(CHATS, MESSAGES_PER_LIFE)
        client = await self._clients.enter_async_context(self._newest.client())
        await self._send_to(client)
        return self._newest, client

    async def _die(self, kills: int) -> None:
        for _ in range(kills):
            up, client = await self._start()
            await self._until(self.acknowledgements + self.chance.randrange(1, MESSAGES_PER_LIFE * len(CHATS) - 7))
            is_long = self.kills % LONG_LIFE_EVERY == LONG_LIFE_EVERY - 1
            if not is_long and self.chance.random() < 0.8:
                await self._answered(client, self.chance.choice(CHATS))
            await self._send_to(None)
            for chat in CHATS if is_long else ():
                await self._answered(client, chat, whole=True)
            await up.kill()
            self.kills += 1

    async def _send_to(self, client: httpx.AsyncClient | None) -> None:
        async with self._moved:
            self._client = client
            self._moved.notify_all()

    async def _until(self, acknowledgements: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self.acknowledgements >= acknowledgements)

    async def _answered(self, client: httpx.AsyncClient, chat: str, *, whole: bool = False) -> None:
        """Until the chat's oldest unanswered message is answered, or all of them: a turn that outlives every process
        fails."""
        for message in self.acknowledged[chat][self.answered[chat] :]:
            known = await client.get(f"/v1/messages/{message}")
            assert known.status_code == 200, known.text
            if known.json()["reply"] is None:
                heard = await client.get(f"/v1/messages/{message}/stream")
                assert heard.status_code == 200, heard.text
                if not whole:
                    return
            self.answered[chat] += 1

    async def _current(self) -> httpx.AsyncClient:
        async with self._moved:
            await self._moved.wait_for(lambda: self._client is not None)
        assert self._client is not None
        return self._client

    async def _send(self, chat: str) -> None:
        number = 0
        while not self._done:
            async with self._moved:
                await self._moved.wait_for(lambda: self._done or self._left[chat] > 0)
            await self._deliver(chat, number)
            self._left[chat] -= 1
            if self.chance.random() < 0.1:
                await self._deliver(chat, number)  # a platform that redelivers what it was told about
            number += 1

    async def _deliver(self, chat: str, number: int) -> None:
        body = {"chat": chat, "sender": chat, "id": str(number), "text": f"{chat} says {number}"}
        while True:
            client = await self._current()
            try:
                answer = await client.post("/v1/messages", json=body)
            except httpx.TransportError:
                continue
            assert answer.status_code in {200, 202}, answer.text
            break
        async with self._moved:
            known = self.acknowledged[chat]
            if len(known) == number:
                known.append(MessageId(answer.json()["message"]))
            assert known[number] == answer.json()["message"], "a redelivery got another message id"
            self.acknowledgements += 1
            self._moved.notify_all()


async def prove(runtime: Runtime, harness: Harness) -> int:
    """Every promise about what was acknowledged; how many messages there were."""
    for chat, messages in harness.acknowledged.items():
        for message in messages:
            assert await runtime.reply_to(message)
        traces = [await runtime.trace(message) for message in messages]
        assert {trace.state for trace in traces} <= {MessageState.ANSWERED}, chat
        said: list[str] = []
        answered = Counter[int]()
        for session in reversed(await runtime.sessions(agent="main", chat=chat)):
            after = 0
            while page := await runtime.history(session.id, after=after, limit=500):
                said += [view.entry.body.message for view in page if isinstance(view.entry.body, UserSaid)]
                answered.update(view.entry.turn for view in page if isinstance(view.entry.body, AssistantSaid))
                after = page[-1].entry.seq
        assert said == messages, f"{chat}: lost, doubled or reordered"
        assert set(answered.values()) <= {1}, f"{chat}: a turn was answered twice"
        assert len(answered) == len(messages)
    return sum(len(messages) for messages in harness.acknowledged.values())


async def die_and_prove(data: Path, *, kills: int, seed: int) -> None:
    harness = Harness(data, seed)
    await harness.run(kills)
    async with await open_runtime(data) as runtime:
        total = await prove(runtime, harness)
    assert harness.kills == kills
    assert total >= kills


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
async def test_nothing_acknowledged_is_lost_doubled_or_reordered_by_thirty_kills(tmp_path, seed):
    await die_and_prove(tmp_path, kills=30, seed=seed)


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_nothing_acknowledged_is_lost_doubled_or_reordered_by_five_hundred_kills(tmp_path):
    await die_and_prove(tmp_path, kills=500, seed=random.randrange(1 << 30))
