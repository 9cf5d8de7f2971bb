"""A message without a sender is spoken by its chat, on every way in: two chats are two people."""

import asyncio
import json

import apsw
import pytest
from typer.testing import CliRunner
from websockets.asyncio.client import connect

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.cli.commands import app
from holdfast.kernel.ids import TokenId
from holdfast.runtime.app import DATABASE
from tests.support.live import TOKEN, code_of, serve

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def speakers(folder):
    """The principals of all messages, by the chat they were sent to."""
    db = apsw.Connection(str(folder / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return dict(db.execute("select conversation, principal from inbound"))
    finally:
        db.close()


async def test_the_chat_speaks_over_http_and_the_websocket(tmp_path):
    async with serve(tmp_path) as live:
        await live.say("hello", chat="one")
        await live.say("hello", chat="telegram:42")
        await live.say("hello", chat="three", sender="ada")
        async with connect(live.url.replace("http", "ws") + "/v1/ws", additional_headers=BEARER, proxy=None) as socket:
            await socket.send(json.dumps({"type": "send", "chat": "four", "id": "1", "text": "hello"}))
            while json.loads(await socket.recv())["type"] != "accepted":
                pass
    assert speakers(tmp_path) == {"one": "one", "telegram:42": "telegram%3A42", "three": "ada", "four": "four"}


async def test_the_chat_speaks_through_the_openai_routes(tmp_path):
    async with serve(tmp_path) as live:
        talk = {"model": "main", "messages": [{"role": "user", "content": "hello"}]}
        named = await live.client.post("/v1/chat/completions", json=talk, headers={"X-Holdfast-Chat": "one"})
        user = await live.post("/v1/chat/completions", {**talk, "user": "ada"})
        plain = await live.post("/v1/chat/completions", talk)
        first = await live.post("/v1/responses", {"model": "main", "input": "hello"})
        second = await live.post("/v1/responses", {"model": "main", "input": "hello again"})
        assert [one.status_code for one in (named, user, plain, first, second)] == [200] * 5
    found = speakers(tmp_path)
    assert (found.pop("one"), found.pop("ada"), found.pop("token-operator")) == ("one", "ada", "token-operator")
    assert len(found) == 2, "each response has a chat of its own"
    assert all(chat.startswith("response-") and chat == who for chat, who in found.items())


async def test_the_chat_speaks_on_the_command_line_and_in_the_library(tmp_path):
    for words in (["hello"], ["hello", "--chat", "one"], ["hello", "--chat", "two", "--sender", "ada"]):
        done = await asyncio.to_thread(CliRunner().invoke, app, ["send", *words, "--data", str(tmp_path)])
        assert done.exit_code == 0, done.output
    async with serve(tmp_path) as live:
        await live.runtime.ask("three", "hello")
    assert speakers(tmp_path) == {"terminal": "terminal", "one": "one", "two": "ada", "three": "three"}


@pytest.mark.parametrize(("chat", "status"), [("ada", 403), ("bob", 202)])
async def test_a_chat_named_like_somebody_on_a_platform_does_not_speak_for_them(tmp_path, chat, status):
    async with serve(tmp_path) as live:
        await live.runtime.access.link("telegram:42", "ada")
        secret = spell_token(7)
        token = AccessToken(id=TokenId("tok_1"), label="app", scopes=frozenset({Scope.SEND}))
        await live.runtime.db.write(add_token(token, hash_token(secret)))
        live.client.headers["Authorization"] = f"Bearer {secret}"
        answered = await live.say("hello", chat=chat)
        assert answered.status_code == status
        assert status == 202 or code_of(answered) == "scope_required"
