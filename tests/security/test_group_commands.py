"""Finding 4 of the attack on a running gateway: any member of an open group, or a robot token, blanked the group's
session with `/delete`.

A command that loses or decides something for others needs the chat's own person, an admin of the group as the platform
tells it, or a named operator; a program may never give one. Here through the whole runtime, on a fake Telegram and over
HTTP with real tokens. The table is in sessions/command_rights.py.
"""

import json
import re
from dataclasses import replace

import pytest
from websockets.asyncio.client import connect

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.channels.telegram import make_telegram
from holdfast.inbox.channel import ChannelSetup
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import AgentName, TokenId
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.sessions.history_sql import list_entries, list_sessions
from holdfast.turns.policy import AccessPolicy, Door
from tests.platforms.telegram import Drop, FakeTelegram, Page, Refuse
from tests.support.approving import hasty
from tests.support.fakes import Process, ScriptedModel, agents, policy, says, soon
from tests.support.live import code_of, serve

ROBOT = AccessToken(
    id=TokenId("tok_robot"),
    scopes=frozenset({Scope.SEND, Scope.READ}),
    robot=True,
    binding=Binding(chats=frozenset({"reports"})),
)
WORD = re.compile(r"/delete (\w{4})\b")


def confirmation(text):
    """The word that a first `/delete` is answered with."""
    found = WORD.search(text)
    assert found is not None, text
    return found[1]


@pytest.fixture
async def telegram():
    async with FakeTelegram() as running:
        yield running


class Group:
    """An open group on Telegram with the agent in it."""

    def __init__(self, telegram, folder, monkeypatch, **access):
        self.server, self.bot = telegram, telegram.bot("muse")
        self.room = telegram.group(self.bot)
        self.owner, self.ada, self.mallory = (telegram.user(name) for name in ("Olga", "Ada", "Mallory"))
        self._folder = folder
        self._policy = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN, **access)
        setup = ChannelSetup(
            name="telegram",
            agent=AgentName("main"),
            settings={"token_env": "TOKEN", "api_url": telegram.url},
            environment={"TOKEN": self.bot.token},
            folder=folder,
            clock=SystemClock(),
            entropy=SystemEntropy(),
            tasks=AsyncTasks(),
        )
        self.channel = make_telegram(setup)
        self.channel.capabilities = hasty(self.channel.capabilities)

    async def __aenter__(self):
        who = agents(ScriptedModel(otherwise=says("noted")), replace(policy(), access=self._policy))
        channels = Channels({(AgentName("main"), "telegram"): self.channel})
        self.process = await Process.start(self._folder, who, channels=channels)
        return self

    async def __aexit__(self, *_):
        await self.process.__aexit__(None, None, None)
        await self.channel.close()

    async def says(self, user, text, **more):
        """What somebody says to the agent, and what it answers."""
        before = len(self.room.texts())
        self.server.say(self.room, user, f"@{self.bot.username} {text}", **more)
        await self.server.until(lambda: len(self.room.texts()) > before)
        return self.room.texts()[before]

    async def words(self):
        """Everything that is kept of what was said in the group."""
        kept = []
        for session in await self.process.runtime.db.read(list_sessions()):
            kept += [
                getattr(one.entry.body, "text", "")
                for one in await self.process.runtime.db.read(list_entries(session.id))
            ]
        return kept


async def test_a_member_of_an_open_group_does_not_blank_its_session(telegram, tmp_path, monkeypatch):
    async with Group(telegram, tmp_path, monkeypatch) as group:
        await group.says(group.ada, "the harbour is blue")
        told = await group.says(group.mallory, "/delete")
        if (word := WORD.search(told)) is not None:
            told = await group.says(group.mallory, f"/delete {word[1]}")
        assert "the harbour is blue" in await group.words()
        assert told.startswith("Only an admin of this group or an operator may give /delete here.")


@pytest.mark.parametrize("text", ["/delete", "/new", "/undo", "/retry", "/branch b", "/resume x"])
async def test_a_robot_token_changes_nothing_in_its_own_chat(tmp_path, text):
    async with serve(tmp_path / "data", model=ScriptedModel(otherwise=says("noted"))) as live:
        await live.runtime.db.write(add_token(ROBOT, hash_token(spell_token(7))))
        headers = {"Authorization": f"Bearer {spell_token(7)}"}
        session = await live.talk("the harbour is blue", chat="reports", sender="reports")
        body = {"chat": "reports", "id": "1", "text": text}
        sent = await live.client.post("/v1/messages", json=body, headers=headers)
        told = await soon(live.runtime.reply_to(sent.json()["message"]))
        if (word := WORD.search(told)) is not None:
            body = {**body, "id": "2", "text": f"/delete {word[1]}"}
            sent = await live.client.post("/v1/messages", json=body, headers=headers)
            await soon(live.runtime.reply_to(sent.json()["message"]))
        (kept,) = [one for one in await live.runtime.sessions(chat="reports") if one.live]
        assert (kept.id, kept.undo_count, kept.state.value) == (session, 0, "open")
        assert told == f"{text.split()[0]} is for people: a program may not give it. Nothing was changed."


# --- Telegram ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["creator", "administrator"])
async def test_an_admin_of_the_group_deletes_its_session_after_being_asked(telegram, tmp_path, monkeypatch, status):
    async with Group(telegram, tmp_path, monkeypatch) as group:
        group.room.statuses[group.owner.id] = status
        await group.says(group.ada, "the harbour is blue")
        word = confirmation(await group.says(group.owner, "/delete"))
        assert "the harbour is blue" in await group.words()
        assert "is erased" in await group.says(group.owner, f"/delete {word}")
        assert "the harbour is blue" not in await group.words()


async def test_an_anonymous_admin_is_the_group_itself_and_another_chat_has_no_rank(telegram, tmp_path, monkeypatch):
    async with Group(telegram, tmp_path, monkeypatch) as group:
        hidden = telegram.user("GroupAnonymousBot", is_bot=True)
        await group.says(group.ada, "the harbour is blue")
        channel = {"id": -1009, "type": "channel", "title": "News"}
        assert (await group.says(hidden, "/new", sender_chat=channel)).startswith("Only an admin")
        assert (await group.says(hidden, "/new", sender_chat=group.room.shown())).startswith("New session")
        assert group.bot.called("getChatMember") == []


async def test_a_platform_that_gives_no_answer_makes_no_sender_an_admin(telegram, tmp_path, monkeypatch):
    async with Group(telegram, tmp_path, monkeypatch) as group:
        group.room.statuses[group.owner.id] = "creator"
        await group.says(group.ada, "the harbour is blue")
        for fault in (Refuse(500, "Internal Server Error"), Drop(after=False), Page(502)):
            group.bot.fail("getChatMember", fault)
            told = await group.says(group.owner, "/new")
            assert told.startswith("Only an admin of this group or an operator may give /new here.")
            assert told.endswith("could not be asked whether you are an admin; if you are, try again in a moment.")
        assert (await group.says(group.owner, "/new")).startswith("New session")


async def test_the_platform_is_asked_for_a_guarded_command_only(telegram, tmp_path, monkeypatch):
    async with Group(telegram, tmp_path, monkeypatch) as group:
        for text in ("hello", "/title t", "/status", "/help"):
            await group.says(group.ada, text)
        assert group.bot.called("getChatMember") == []
        await group.says(group.ada, "/undo")
        assert len(group.bot.called("getChatMember")) == 1


async def test_a_member_undoes_only_their_own_turns(telegram, tmp_path, monkeypatch):
    async with Group(telegram, tmp_path, monkeypatch) as group:
        await group.says(group.ada, "the harbour is blue")
        for text in ("/undo", "/retry"):
            assert (await group.says(group.mallory, text)).startswith("Only the person whose turns they all are")
        assert (await group.says(group.ada, "/undo")).startswith("Took back 1 turn.")


async def test_a_named_operator_may_and_so_may_a_linked_account(telegram, tmp_path, monkeypatch):
    chief = telegram.user("Chief")
    named = f"telegram:{chief.id}"
    async with Group(telegram, tmp_path, monkeypatch, operators=frozenset({named})) as group:
        await group.says(group.ada, "the harbour is blue")
        assert (await group.says(group.mallory, "/new")).startswith("Only an admin")
        assert (await group.says(chief, "/new")).startswith("New session")
        await group.process.runtime.access.link(f"telegram:{group.mallory.id}", named)
        await group.says(group.ada, "the harbour is red")
        assert (await group.says(group.mallory, "/new")).startswith("New session")


async def test_a_bot_in_the_group_gives_no_command(telegram, tmp_path, monkeypatch):
    async with Group(telegram, tmp_path, monkeypatch) as group:
        robot = telegram.user("Helper", is_bot=True)
        group.room.statuses[robot.id] = "administrator"
        await group.says(group.ada, "the harbour is blue")
        assert (await group.says(robot, "/delete")).startswith("/delete is for people")
        assert group.bot.called("getChatMember") == []
        assert "the harbour is blue" in await group.words()


# --- over HTTP --------------------------------------------------------------------------------------


class Desk:
    """A gateway with tokens of every kind."""

    def __init__(self, live):
        self.live = live
        self._n = 0

    async def token(self, *scopes, **binding):
        self._n += 1
        kind = {"robot": binding.pop("robot", False)}
        held = frozenset(scopes or (Scope.SEND, Scope.READ))
        made = AccessToken(id=TokenId(f"tok_{self._n}"), scopes=held, binding=Binding(**binding), **kind)
        secret = spell_token(self._n)
        await self.live.runtime.db.write(add_token(made, hash_token(secret)))
        return {"Authorization": f"Bearer {secret}"}

    async def says(self, headers, chat, text, **more):
        self._n += 1
        body = {"chat": chat, "id": f"e{self._n}", "text": text, **more}
        sent = await self.live.client.post("/v1/messages", json=body, headers=headers)
        assert sent.status_code == 202, sent.text
        return await soon(self.live.runtime.reply_to(sent.json()["message"]))


@pytest.fixture
async def desk(tmp_path):
    async with serve(tmp_path / "data", model=ScriptedModel(otherwise=says("noted"))) as live:
        yield Desk(live)


async def test_a_bound_sender_may_do_everything_in_a_chat_of_their_own(desk):
    ada = await desk.token(sender="ada")
    await desk.says(ada, "ada", "the harbour is blue")
    assert (await desk.says(ada, "ada", "/undo")).startswith("Took back")
    assert (await desk.says(ada, "ada", "/new")).startswith("New session")
    await desk.says(ada, "ada", "the harbour is red")
    word = confirmation(await desk.says(ada, "ada", "/delete"))
    assert "is erased" in await desk.says(ada, "ada", f"/delete {word}")


@pytest.mark.parametrize("text", ["/delete", "/new", "/branch b", "/resume x", "/undo 2"])
async def test_two_senders_behind_a_relay_are_a_group_without_admins(desk, text):
    relay = await desk.token(relay=True)
    await desk.says(relay, "family", "the harbour is blue", sender="ada")
    await desk.says(relay, "family", "the harbour is red", sender="bob")
    (before,) = await desk.live.runtime.sessions(chat="family")
    for who in ("ada", "bob", "mallory"):
        told = await desk.says(relay, "family", text, sender=who)
        assert "where several people talk" in told
    assert await desk.live.runtime.sessions(chat="family") == [before] or text == "/undo 2"
    assert (await desk.says(relay, "family", "/undo", sender="bob")).startswith("Took back 1 turn.")
    assert "where several people talk" not in await desk.says({}, "family", text, sender="eve"), "the operator's token"


async def test_an_admin_token_is_an_operators_and_a_robot_with_that_scope_is_none(desk):
    relay, admin = await desk.token(relay=True), await desk.token(Scope.ADMIN)
    robot = await desk.token(Scope.ADMIN, robot=True)
    for who in ("ada", "bob"):
        await desk.says(relay, "family", "the harbour is blue", sender=who)
    assert (await desk.says(robot, "family", "/new", sender="ada")).startswith("/new is for people")
    assert (await desk.says(admin, "family", "/new", sender="eve")).startswith("New session")


async def test_what_was_passed_on_is_a_programs(desk):
    ada = await desk.token(sender="ada")
    await desk.says(ada, "ada", "the harbour is blue")
    told = await desk.says({**ada, "X-Holdfast-Hop": "1"}, "ada", "/new")
    assert told.startswith("/new is for people")


async def test_openais_routes_ask_the_same(desk):
    robot, ada = await desk.token(sender="ada", robot=True), await desk.token(sender="ada")
    body = {"model": "main", "messages": [{"role": "user", "content": "the harbour is blue"}], "user": "ada"}
    command = {**body, "messages": [{"role": "user", "content": "/new"}]}
    assert (await desk.live.client.post("/v1/chat/completions", json=body, headers=ada)).status_code == 200
    for headers, told in ((robot, "/new is for people"), (ada, "New session")):
        answer = await desk.live.client.post("/v1/chat/completions", json=command, headers=headers)
        assert answer.json()["choices"][0]["message"]["content"].startswith(told)


async def test_the_websocket_asks_the_same(desk):
    robot = await desk.token(sender="ada", robot=True)
    await desk.says(await desk.token(sender="ada"), "ada", "the harbour is blue")
    url = desk.live.url.replace("http", "ws") + "/v1/ws"
    async with connect(url, additional_headers=robot, proxy=None) as socket:
        frames = [json.loads(await soon(socket.recv()))]
        await socket.send(json.dumps({"type": "send", "chat": "ada", "id": "w1", "text": "/delete"}))
        while frames[-1]["type"] != "reply":
            frames.append(json.loads(await soon(socket.recv())))
    assert frames[-1]["text"].startswith("/delete is for people")


async def test_a_robot_decides_nothing_over_the_api(desk):
    robot = await desk.token(Scope.OPERATE, robot=True)
    refused = await desk.live.client.post("/v1/approvals/K7M2QX", json={"decision": "approve"}, headers=robot)
    assert (refused.status_code, code_of(refused)) == (403, "robot_refused")


async def test_the_library_speaks_for_the_chats_own_person(desk):
    await desk.live.talk("the harbour is blue", chat="mine", sender="me")
    assert (await desk.live.runtime.ask("mine", "/new", sender="me")).startswith("New session")
