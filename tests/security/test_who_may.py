"""The table of docs/reference/who-may.md, cell by cell, against a running `holdfast up`.

The group is on a Telegram of the tests; everything else comes over HTTP, with tokens that the real command makes.
So the page cannot say anything else than what happens.
"""

import asyncio
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.platforms.telegram import Bot, Chat, FakeTelegram, User
from tests.security.gateway import new_token, outcome, post, reply_of, said
from tests.security.test_webhooks import NO_PROXY
from tests.support.patience import within
from tests.support.processes import Up

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "who-may.md"
ROWS = ("own chat", "another's chat", "group", "robot", "other agent", "other token")
COLUMNS = ("read", "say", "command", "approve", "recall", "note", "delete", "response id")
CONFIG = """
[agents.main]
model = "practice"
[agents.main.access]
door = "open"
group_door = "open"
[agents.main.approval]
tools = ["recall"]
[agents.main.channels.telegram]
token_env = "TELEGRAM"
api_url = "{telegram}"

[agents.other]
model = "practice"
"""
SPEAKS = ("--scope", "send", "--scope", "read")
ACTS = (*SPEAKS, "--scope", "operate")
TOKENS = {
    "ada": (*ACTS, "--sender", "ada"),
    "bob": (*ACTS, "--sender", "bob"),
    "robot": (*ACTS, "--sender", "reports", "--robot"),
    "other": (*ACTS, "--relay", "--agent", "other"),
    "relay": (*SPEAKS, "--relay"),
}
OWNERS = {"ada": "ada", "bob": "bob", "reports": "robot"}  # whose token a chat is for
BOBS, ADAS, GROUPS, ROBOTS = "Byron", "Ariel", "Nelson", "Hal"
DANGEROUS = 'use recall {"query": "cat"}'
READ_NOTES = 'use memory {"action": "read"}'
TELLING = "The canary of the lighthouse at the northern harbour is called {}."
QUESTION = "What is the canary of the lighthouse at the northern harbour called?"
CONFIRM = re.compile(r"/delete (\S+)\s*\Z")
NUMBERS = itertools.count()


def table() -> dict[tuple[str, str], str]:
    """The cells of the page."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {(row[0], column): cell for row in rows for column, cell in zip(head[1:], row[1:], strict=True)}


TABLE = table()


async def test_the_page_has_one_cell_for_each_row_and_column():
    assert set(TABLE) == set(itertools.product(ROWS, COLUMNS))


# --- a gateway in which each of them has something ---------------------------------------------------


@dataclass
class Room:
    """The group, as its members see it."""

    telegram: FakeTelegram
    bot: Bot
    chat: Chat

    async def say(self, user: User, text: str, posts: int = 1) -> str:
        """What the bot posts next."""
        before = len(self.chat.posted(self.bot))
        self.telegram.say(self.chat, user, text)
        await self.telegram.until(lambda: len(self.chat.posted(self.bot)) >= before + posts)
        return str(self.chat.texts(self.bot)[before])

    async def ask(self, user: User, text: str) -> str:
        return await self.say(user, f"@{self.bot.username} {text}")

    async def command(self, user: User, text: str, posts: int = 1) -> str:
        verb, _, rest = text.partition(" ")
        return await self.say(user, f"{verb}@{self.bot.username} {rest}".strip(), posts)


@dataclass
class World:
    client: httpx.AsyncClient
    room: Room
    ada: User  # two members, neither of them an admin
    eve: User
    tokens: dict[str, dict[str, str]]
    places: dict[str, dict[str, str]]

    async def state(self) -> Any:
        """Everything that is said, in which sessions, and which calls wait."""
        sessions = (await self.client.get("/v1/sessions", params={"limit": 500})).json()["sessions"]
        return sorted((one["id"], one["turns"], one["live"], one["state"]) for one in sessions), await self.waiting()

    async def waiting(self) -> set[str]:
        return {one["id"] for one in (await self.client.get("/v1/approvals")).json()["approvals"]}

    async def refusal(self) -> str:
        """The newest row of the audit trail, which has to be a refusal."""
        newest = (await self.client.get("/v1/actions", params={"limit": 1})).json()["actions"][0]
        assert newest["outcome"] == "refused", newest
        return f"refused, `{newest['code']}`"

    async def asked(self, chat: str, **more: Any) -> str:
        """A call in this chat that waits for a human; its id."""
        before = await self.waiting()
        assert (await post(self.client, chat, DANGEROUS, agent="main", **more)).status_code == 202
        return await self.new_wait(before)

    async def new_wait(self, before: set[str]) -> str:
        async with within(30):
            while not (new := await self.waiting() - before):
                pass  # asking lets the others run
        return new.pop()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    async with FakeTelegram() as telegram:
        bot = telegram.bot("matrix_bot")
        file = folder / "holdfast.toml"
        file.write_text(CONFIG.format(telegram=telegram.url))
        environment = {"TELEGRAM": bot.token, **NO_PROXY}
        up = await Up.start(folder / "data", "--config", str(file), environment=environment)
        try:
            made = [new_token(*words, "--data", folder / "data") for words in TOKENS.values()]
            tokens = dict(zip(TOKENS, await asyncio.gather(*made), strict=True))
            async with up.client() as client:
                room = Room(telegram, bot, telegram.group(bot))
                running = World(client, room, telegram.user("Ada"), telegram.user("Eve"), tokens, {})
                await plant(running)
                yield running
        finally:
            await up.kill()


async def plant(world: World) -> None:
    """Each place has said its canary, and has asked over OpenAI's API."""
    for who, chat, canary in (("ada", "ada", ADAS), ("bob", "bob", BOBS), ("robot", "reports", ROBOTS)):
        headers = world.tokens[who]
        await said(world.client, chat, TELLING.format(canary), agent="main", headers=headers)
        asked = {"model": "main", "input": "hello", "user": chat}
        response = await world.client.post("/v1/responses", json=asked, headers=headers)
        assert response.status_code == 200, response.text
        world.places[chat] = {"response": response.json()["id"]}
    await world.room.ask(world.eve, TELLING.format(GROUPS))
    sessions = (await world.client.get("/v1/sessions", params={"agent": "main"})).json()["sessions"]
    group = next(one["id"] for one in sessions if ":telegram:" in one["address"])
    message = re.search(r"msg_\w+", (await world.client.get("/v1/replies")).text)
    assert message
    world.places["group"] = {"response": f"resp_{message[0]}", "session": group}


# --- what each of them tries -------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """Who asks over HTTP, with which token, about which chat, under which name."""

    token: str
    chat: str
    canary: str = ""
    sender: str = ""  # beside the token's own
    by_id: tuple[int, str] = (404, "approval_not_found")

    def said(self) -> dict[str, Any]:
        return {"agent": "main", **({"sender": self.sender} if self.sender else {})}


WAYS = {
    "own chat": Way("ada", "ada", canary=ADAS),
    "another's chat": Way("ada", "bob", canary=BOBS),
    "robot": Way("robot", "reports", canary=ROBOTS, by_id=(403, "robot_refused")),
    "other agent": Way("other", "bob", canary=BOBS),
    "other token": Way("relay", "bob", canary=BOBS, sender="mallory", by_id=(403, "scope_required")),
}
OTHERS = {ADAS: (BOBS, GROUPS, ROBOTS), BOBS: (ADAS, GROUPS, ROBOTS), ROBOTS: (ADAS, BOBS, GROUPS)}


class OverHttp:
    """Implements each column for the rows that hold a token."""

    def __init__(self, world: World, way: Way) -> None:
        self.world, self.way, self.client = world, way, world.client
        self.headers = world.tokens[way.token]

    async def get(self, path: str, **query: str) -> httpx.Response:
        return await self.client.get(path, params={"agent": "main", **query}, headers=self.headers)

    async def post(self, text: str, chat: str = "") -> httpx.Response:
        return await post(self.client, chat or self.way.chat, text, headers=self.headers, **self.way.said())

    async def answer(self, text: str, chat: str = "") -> str:
        """The reply; what was refused is told as a cell tells it."""
        response = await self.post(text, chat)
        if response.status_code != 202:
            return told(response)
        return await reply_of(self.client, response.json()["message"])

    async def read(self) -> str:
        response = await self.get("/v1/conversation", chat=self.way.chat)
        return told(response, holds=self.way.canary)

    async def say(self) -> str:
        chat = await self.begun("say")
        response = await self.post("It rains.", chat)
        if response.status_code != 202:
            return told(response)
        assert "It rains." in await reply_of(self.client, response.json()["message"])
        found = await self.client.get("/v1/conversation", params={"agent": "main", "chat": chat})
        speaker = next(one["sender"] for one in found.json()["lines"] if one["text"] == "It rains.")
        assert speaker == (self.way.sender or {"ada": "ada", "robot": "reports"}[self.way.token])
        return "ok, named" if any("mallory: It rains." in one for one in await self.shown(chat)) else "ok"

    async def shown(self, chat: str) -> list[str]:
        sessions = (await self.client.get("/v1/sessions", params={"agent": "main", "chat": chat})).json()["sessions"]
        context = await self.client.get(f"/v1/sessions/{sessions[0]['id']}/context")
        return [one["content"] for one in context.json()["messages"]]

    async def begun(self, what: str) -> str:
        """A chat of the same person for one column, in which only they have spoken."""
        chat = f"{self.way.chat}/{what}-{next(NUMBERS)}"
        headers = self.world.tokens[OWNERS[self.way.chat]]
        await said(self.client, chat, "The harbour is blue.", agent="main", headers=headers)
        return chat

    async def command(self) -> str:
        chat = await self.begun("command")
        return await self.commanded("/new", chat, "New session")

    async def commanded(self, text: str, chat: str, done: str) -> str:
        before = await self.world.state()
        reply = await self.answer(text, chat)
        if reply.startswith("4"):
            assert await self.world.state() == before
            return reply
        if done in reply:
            return "ok"
        assert "Nothing was changed" in reply, reply
        assert await self.world.state() == before
        return await self.world.refusal()

    async def approve(self) -> str:
        chat = await self.begun("ask")
        waits = await self.world.asked(chat, headers=self.world.tokens[OWNERS[self.way.chat]])
        found = await self.commanded(f"/approve {waits}", chat, "pproved")
        assert (waits in await self.world.waiting()) is (found != "ok")
        if found != "ok":
            body = {"decision": "approve"}
            by_id = await self.client.post(f"/v1/approvals/{waits}", json=body, headers=self.headers)
            assert outcome(by_id) == self.way.by_id
            assert waits in await self.world.waiting()
        return found

    async def recall(self) -> str:
        response = await self.get("/v1/recall", chat=self.way.chat, q="canary called")
        found = told(response, holds=self.way.canary)
        if found != "ok":
            return found
        assert not any(other in response.text for other in OTHERS[self.way.canary])
        return "ok, own words" if self.way.token in ("ada", "robot") else "ok"

    async def note(self) -> str:
        chat = await self.begun("note")
        text = f"The note is {next(NUMBERS)}th of {self.way.token}."
        reply = await self.answer(f"use memory {json.dumps({'action': 'add', 'content': text})}", chat)
        if reply.startswith("4"):
            return reply
        assert '"ok":true' in reply
        assert text in await self.answer(READ_NOTES, chat)
        for who in ("ada", "bob", "robot"):
            if who != self.way.token:
                elsewhere = "reports" if who == "robot" else f"{who}/elsewhere"
                headers = self.world.tokens[who]
                read = await said(self.client, elsewhere, READ_NOTES, agent="main", headers=headers)
                assert text not in read
        return "ok, its sender's note" if self.way.sender else "ok, own note"

    async def delete(self) -> str:
        chat = await self.begun("gone")
        reply = await self.commanded("/delete", chat, "cannot be undone")
        if reply != "ok":
            return reply
        before = await self.world.state()
        asked = CONFIRM.search(await self.answer("/delete", chat))
        assert asked
        assert await self.world.state() == before, "nothing is deleted before it is confirmed"
        await self.answer(f"/delete {asked[1]}", chat)
        found = await self.client.get("/v1/conversation", params={"agent": "main", "chat": chat})
        assert "The harbour is blue." not in found.text
        return "ok, asked once more"

    async def response_id(self) -> str:
        earlier = self.world.places[self.way.chat]["response"]
        body = {"model": "main", "input": "hello", "previous_response_id": earlier}
        response = await self.client.post("/v1/responses", json=body, headers=self.headers)
        again = await self.client.get(f"/v1/responses/{earlier}", headers=self.headers)
        assert again.is_success is response.is_success
        return told(response)


class InTheGroup:
    """Implements each column for a member of a group: Ada asks about what Eve has said and asked for."""

    def __init__(self, world: World) -> None:
        self.world, self.room = world, world.room

    async def read(self) -> str:
        reply = await self.room.ask(self.world.ada, 'use history {"query": "canary"}')
        return self.only_the_groups(reply)

    def only_the_groups(self, reply: str) -> str:
        assert GROUPS in reply
        assert not any(one in reply for one in (ADAS, BOBS, ROBOTS))
        return "ok, the group's words"

    async def say(self) -> str:
        assert "It rains." in await self.room.ask(self.world.ada, "It rains.")
        session = self.world.places["group"]["session"]
        context = (await self.world.client.get(f"/v1/sessions/{session}/context")).json()["messages"]
        spoken = next(one["content"] for one in context if "It rains." in one["content"] and one["role"] == "user")
        assert f"telegram:{self.world.ada.id}" in spoken.partition("It rains.")[0]
        return "ok, named"

    async def commanded(self, text: str) -> str:
        before = await self.world.state()
        reply = await self.room.command(self.world.ada, text)
        assert "Nothing was changed" in reply, reply
        assert await self.world.state() == before
        return await self.world.refusal()

    async def command(self) -> str:
        return await self.commanded("/new")

    async def approve(self) -> str:
        before = await self.world.waiting()
        asking = await self.room.ask(self.world.eve, DANGEROUS)
        waits = await self.world.new_wait(before)
        assert waits in asking
        try:
            return await self.commanded(f"/approve {waits}")
        finally:
            await self.room.command(self.world.eve, f"/deny {waits}", posts=2)  # it is hers, and the group goes on

    async def recall(self) -> str:
        return self.only_the_groups(await self.room.ask(self.world.ada, QUESTION))

    async def note(self) -> str:
        wish = {"action": "add", "content": "The group meets on Fridays."}
        assert '"ok":true' in await self.room.ask(self.world.ada, f"use memory {json.dumps(wish)}")
        assert "Fridays" in await self.room.ask(self.world.eve, READ_NOTES)
        private = self.room.telegram.private(self.room.bot, self.world.ada)
        self.room.telegram.say(private, self.world.ada, READ_NOTES)
        await self.room.telegram.until(private.posted)
        elsewhere = [private.texts(self.room.bot)[0]]
        for who, chat in (("ada", "ada"), ("bob", "bob")):
            headers = self.world.tokens[who]
            elsewhere.append(await said(self.world.client, chat, READ_NOTES, headers=headers))
        assert not any("Fridays" in one for one in elsewhere)
        return "ok, the group's note"

    async def delete(self) -> str:
        return await self.commanded("/delete")

    async def response_id(self) -> str:
        body = {"model": "main", "input": "hello", "previous_response_id": self.world.places["group"]["response"]}
        tried = [
            await self.world.client.post("/v1/responses", json=body, headers=self.world.tokens[one])
            for one in ("ada", "bob", "robot")
        ]
        (found,) = {told(one) for one in tried}
        return found


def told(response: httpx.Response, *, holds: str = "") -> str:
    if response.is_success:
        assert holds in response.text
        return "ok"
    assert not any(one in response.text for one in (ADAS, BOBS, GROUPS, ROBOTS))
    status, code = outcome(response)
    return f"{status} `{code}`"


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS)
async def test_a_cell_says_what_happens(world, row, column):
    tries = InTheGroup(world) if row == "group" else OverHttp(world, WAYS[row])
    assert await getattr(tries, column.replace(" ", "_"))() == TABLE[row, column]
