"""A client that may send names the speaker, but cannot name a person of another channel: neither by that account's id,
nor by the name that an operator linked it to. Two people's equal messages are two messages.
"""

import asyncio
import json

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals
from holdfast.kernel.ids import OperationId, Principal, TokenId
from tests.support.fakes import happened, soon
from tests.support.live import GatedModel, code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
SENDING = {"Authorization": f"Bearer {spell_token(1)}"}
OF_MAIN = {"Authorization": f"Bearer {spell_token(2)}"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("speaking") / "data") as running:
        for n, agents in ((1, ()), (2, ("main",))):
            scopes = frozenset({Scope.SEND, Scope.READ})
            token = AccessToken(id=TokenId(f"tok_{n}"), scopes=scopes, agents=frozenset(agents))
            await running.runtime.db.write(add_token(token, hash_token(spell_token(n))))
        await running.runtime.ask("private", "My canary is called Byron.", sender="telegram:123")
        await running.runtime.ask("private", "/title plans", sender="telegram:123")
        await running.runtime.access.link("telegram:123", "alice")
        names = {"principal": Principal("al"), "person": Principal("albert")}  # as older releases let them be linked
        await running.runtime.db.write(
            link_principals(LinkRequest(**names, by="a test", operation=OperationId("op_1")))
        )
        yield running


def message(sender, id="1"):
    return {"chat": f"of-{sender}", "id": id, "text": "/resume plans", "sender": sender}


@pytest.mark.parametrize("headers", [SENDING, OF_MAIN], ids=["all agents", "one agent"])
@pytest.mark.parametrize("sender", ["telegram:123", "alice"])
async def test_a_token_cannot_speak_for_the_owner_of_an_account_elsewhere(live, sender, headers):
    asked = {"model": "main", "messages": [{"role": "user", "content": "/resume plans"}]}
    for path, body, more in (
        ("/v1/messages", message(sender), {}),
        ("/v1/messages", message(sender), {"Accept": "text/event-stream"}),
        ("/v1/chat/completions", {**asked, "user": sender}, {}),
        ("/v1/chat/completions", asked, {"X-Holdfast-Sender": sender}),
        ("/v1/responses", {"model": "main", "input": "/resume plans", "user": sender}, {}),
    ):
        refused = await live.client.post(path, json=body, headers={**headers, **more})
        assert (refused.status_code, code_of(refused)) == (403, "scope_required")
    assert (await live.get("/v1/sessions", chat=f"of-{sender}")).json() == {"sessions": []}


async def test_nor_over_a_websocket(live):
    url = live.url.replace("http", "ws") + "/v1/ws"
    async with connect(url, proxy=None, additional_headers=SENDING) as socket:
        assert json.loads(await socket.recv())["type"] == "ready"
        await socket.send(json.dumps({"type": "send", **message("alice")}))
        assert json.loads(await socket.recv())["error"]["code"] == "scope_required"


@pytest.mark.parametrize("sender", ["mallory", "albert", "al"])
async def test_a_sender_known_only_here_may_be_named_and_finds_nothing_of_others(live, sender):
    sent = await live.client.post("/v1/messages", json=message(sender), headers=SENDING)
    assert sent.status_code == 202
    assert "No session 'plans' is visible here" in await live.runtime.reply_to(sent.json()["message"])


async def test_an_operator_may_speak_for_them(live):
    sent = await live.client.post("/v1/messages", json=message("alice", "2"))
    assert "Resumed “plans”" in await live.runtime.reply_to(sent.json()["message"])


@pytest.mark.parametrize("sender", ["", "a\n", "x" * 600])
async def test_a_sender_that_cannot_be_one_is_said_to_be_so(live, sender):
    refused = await live.client.post("/v1/messages", json={**message("x"), "sender": sender}, headers=SENDING)
    assert (refused.status_code, code_of(refused)) == (400, "invalid_name")


async def test_the_same_words_of_two_people_at_once_are_two_messages(tmp_path):
    model = GatedModel()
    body = {"model": "main", "messages": [{"role": "user", "content": "yes"}]}
    async with serve(tmp_path, model=model) as live:

        async def ask(sender):
            headers = {"X-Holdfast-Chat": "shared", "X-Holdfast-Sender": sender}
            return (await live.client.post("/v1/chat/completions", json=body, headers=headers)).json()["id"]

        feed = live.runtime.events()
        asked = []
        for sender in ("ada", "bob"):
            asked.append(asyncio.create_task(ask(sender)))
            await happened(feed, "message.accepted")
        feed.close()
        model.gate.set()
        ada, bob = await soon(asyncio.gather(*asked))
        assert ada != bob
