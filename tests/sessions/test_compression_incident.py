"""The original incident, as it happened to nine agents on one host, with real processes.

There, compression moved conversations to new session ids, compressed other agents' sessions, and forgot the messages
that arrived meanwhile. Here the id stays, no other session is touched, and the first context after a
compression holds everything.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.processes import Up

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = """
[agents.main]
context_tokens = 600
[agents.main.compression]
soft = 0.5
hard = 0.8
"""


class Talk:
    """One chat over HTTP, as a script would hold it."""

    def __init__(self, client: httpx.AsyncClient, chat: str) -> None:
        self.client = client
        self.chat = chat
        self.sent: list[str] = []

    async def say(self, text: str) -> str:
        body = {"chat": self.chat, "sender": self.chat, "id": str(len(self.sent)), "text": text}
        answer = await self.client.post("/v1/messages", json=body)
        assert answer.status_code == 202, answer.text
        self.sent.append(text)
        return str(answer.json()["message"])

    async def answered(self, message: str) -> Any:
        while True:
            found = (await self.client.get(f"/v1/messages/{message}")).json()
            if found["state"] not in {"waiting", "in_turn"}:
                return found

    async def ask(self, text: str) -> Any:
        return await self.answered(await self.say(text))

    async def sessions(self) -> Any:
        return (await self.client.get("/v1/sessions", params={"agent": "main", "chat": self.chat})).json()["sessions"]

    async def context(self, session: str) -> Any:
        return (await self.client.get(f"/v1/sessions/{session}/context")).json()

    async def compress(self, session: str) -> None:
        """Ask for a compression and wait until its operation has ended."""
        asked = await self.client.post(f"/v1/sessions/{session}/compress")
        assert asked.status_code == 202, asked.text
        await self.ended(session, asked.json()["operation"])

    async def ended(self, session: str, operation: str) -> None:
        while True:
            answer = await self.client.get("/v1/operations", params={"session": session})
            found = [row for row in answer.json()["operations"] if row["id"] == operation]
            if found and found[0]["ended_at"]:
                return


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("shared") / "data"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(data):
    """One process for all tests but one: each has chats of its own, as the agents on that host had."""
    running = await Up.start(data)
    yield running
    assert await running.stop() == 0


@pytest_asyncio.fixture(loop_scope="module")
async def small(tmp_path):
    """A process whose agent has a window so small that conversations compress by themselves."""
    config = tmp_path / "holdfast.toml"
    config.write_text(CONFIG)
    running = await Up.start(tmp_path / "data", "--config", str(config))
    yield running
    assert await running.stop() == 0


async def test_compression_keeps_the_id_and_the_next_turn_has_the_compressed_history(up):
    async with up.client() as client:
        talk = Talk(client, "ada")
        first = await talk.ask("my cat is called Byron")
        for number in range(4):
            await talk.ask(f"filler number {number}")
        await talk.compress(first["session"])
        after = await talk.ask("what is my cat called?")

        assert after["session"] == first["session"]
        assert "Byron" in after["reply"]["text"]
        [session] = await talk.sessions()
        assert (session["id"], session["summaries"], session["parent"]) == (first["session"], 1, None)
        assert (await talk.context(first["session"]))["covers_through"] > 0


async def test_storage_grows_only_by_the_summary(up):
    async with up.client() as client:
        talk = Talk(client, "bea")
        for number in range(14):
            answer = await talk.ask(f"message {number}")
            if number >= 8:
                await talk.compress(answer["session"])
        entries = (await client.get(f"/v1/sessions/{answer['session']}/entries", params={"limit": 500})).json()[
            "entries"
        ]
        [session] = await talk.sessions()

    spoken = [entry for entry in entries if entry["kind"] in {"user", "assistant"}]
    assert len(spoken) == 28
    assert len({entry["seq"] for entry in entries}) == len(entries)
    assert session["summaries"] == 6


@pytest.mark.parametrize("count", [5, 13])
async def test_sessions_that_compress_at_once_never_alias(up, count):
    async with up.client() as client:
        talks = [Talk(client, f"agent{number}-of-{count}") for number in range(count)]

        async def converse(talk: Talk) -> str:
            for number in range(4):
                answer = await talk.ask(f"my canary is {talk.chat}-{number}")
            return str(answer["session"])

        sessions = await asyncio.gather(*(converse(talk) for talk in talks))
        await asyncio.gather(*(talk.compress(session) for talk, session in zip(talks, sessions, strict=True)))

        assert len(set(sessions)) == count
        for talk, session in zip(talks, sessions, strict=True):
            [only] = await talk.sessions()
            assert (only["id"], only["summaries"]) == (session, 1)
            shown = str((await talk.context(session))["messages"])
            assert f"{talk.chat}-0" in shown
            assert not any(f"{other.chat}-0" in shown for other in talks if other is not talk)


async def test_messages_sent_while_compressing_are_in_the_next_context_whole_and_in_order(up):
    async with up.client() as client:
        talk = Talk(client, "cleo")
        for number in range(5):
            first = await talk.ask(f"earlier {number}")
        session = first["session"]
        asked = await client.post(f"/v1/sessions/{session}/compress")
        arrived = [f"arrived meanwhile {number}: {'x' * 200} end" for number in range(4)]
        messages = [await talk.say(text) for text in arrived]
        await talk.ended(session, asked.json()["operation"])
        for message in messages:
            assert (await talk.answered(message))["session"] == session

        shown = [row["content"] for row in (await talk.context(session))["messages"] if row["role"] == "user"]
    assert [text for text in shown if text in arrived] == arrived


async def test_the_threshold_is_crossed_by_itself_without_anyone_noticing(small):
    async with small.client() as client:
        talk = Talk(client, "dora")
        answers = [await talk.ask("my boat is called Persephone")]
        answers += [await talk.ask(f"a longer remark number {number}: {'lorem ipsum ' * 12}") for number in range(20)]
        last = await talk.ask("what is my boat called?")
        [session] = await talk.sessions()
        entries = (await client.get(f"/v1/sessions/{last['session']}/entries", params={"limit": 500})).json()["entries"]

    assert {answer["session"] for answer in [*answers, last]} == {session["id"]}
    assert session["summaries"] >= 1
    assert "Persephone" in last["reply"]["text"]
    assert [entry["text"] for entry in entries if entry["kind"] == "user"] == talk.sent


async def test_the_audit_proves_it_from_the_records_alone(up, data):
    async with up.client() as client:
        talk = Talk(client, "eva")
        for number in range(6):
            answer = await talk.ask(f"message {number}")
        await talk.compress(answer["session"])
        await talk.ask("/branch side")
        await talk.ask("on the side")
    assert await audit(data) == 0


async def audit(data: Path) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast", "audit", "--data", str(data), "--json", stdout=asyncio.subprocess.DEVNULL
    )
    return await process.wait()
