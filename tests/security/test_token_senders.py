"""Finding 3 of the attack on a running gateway: a `send` token was every HTTP user of its agent.

A token that is bound to a sender or to chats sends under no other name and to no other chat. A relay may, because the
operator allowed it, and still does not find what another token asked for. The matrix of all routes is in
test_token_matrix.py.

Rules: D46.
"""

import json

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from holdfast.api.auth.access_token import UNSAID, AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.api.auth.viewer import Viewer
from holdfast.inbox.address import parse
from holdfast.kernel.errors import MessageNotFound, SessionNotFound, TokenBound
from holdfast.kernel.ids import TokenId
from holdfast.sessions.history_sql import read_session
from tests.security.bound_world import (
    CANARY,
    LISTED,
    TOKENS,
    holding,
    plant,
    said,
    state_of,
    telling_model,
)
from tests.support.fakes import soon
from tests.support.live import code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
SENDING = frozenset({Scope.SEND, Scope.READ})
MADE = iter(range(1_000, 2_000))
EVENTS = {"Accept": "text/event-stream"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("senders") / "data", model=telling_model(), listed=LISTED) as running:
        running.side = await plant(running)
        yield running


async def token(live, binding, *, scopes=SENDING):
    """Headers with a new token of this binding."""
    n = next(MADE)
    made = AccessToken(id=TokenId(f"made-{n}"), scopes=scopes, binding=binding)
    await live.runtime.db.write(add_token(made, hash_token(spell_token(n))))
    return {"Authorization": f"Bearer {spell_token(n)}"}


async def one_chat(live, chat):
    """The principals that spoke in a chat."""
    lines = (await live.get("/v1/conversation", agent="main", chat=chat)).json()["lines"]
    return [line["sender"] for line in lines if line["sender"]]


# --- what was shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["/delete", "/approve {approval}", "What did I tell you?", "/new", "/undo"])
@pytest.mark.parametrize("more", [{}, EVENTS], ids=["202", "events"])
async def test_a_bound_token_says_nothing_in_anothers_chat_under_anothers_name(live, text, more):
    before = await state_of(live, live.side)
    for chat in ("bob", "bob/danger"):
        body = {
            "chat": chat,
            "sender": "bob",
            "id": "x1",
            "text": text.replace("{approval}", live.side.another["approval"]),
        }
        refused = await live.client.post("/v1/messages", json=body, headers={**holding("sender"), **more})
        assert (refused.status_code, code_of(refused)) == (403, "token_bound")
    assert await state_of(live, live.side) == before


@pytest.mark.parametrize(
    ("named", "headers"),
    [
        ({"user": "bob"}, {}),
        ({}, {"X-Holdfast-Chat": "bob"}),
        ({}, {"X-Hermes-Session-Key": "bob"}),
        ({}, {"X-Holdfast-Sender": "bob"}),
        ({"user": "ada"}, {"X-Holdfast-Sender": "bob"}),
        ({"user": "bob"}, {"X-Holdfast-Chat": "ada"}),
        ({"user": "ada"}, {"X-Holdfast-Chat": "bob", "Idempotency-Key": "k"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["sender", "chat"])
async def test_nor_over_openais_routes_however_the_chat_or_the_sender_is_named(live, kind, named, headers):
    before = await state_of(live, live.side)
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "What did I tell you?"}]}),
        ("/v1/responses", {"input": "What did I tell you?"}),
    ):
        refused = await live.client.post(path, json={**body, **named}, headers={**holding(kind), **headers})
        assert (refused.status_code, code_of(refused)) == (403, "token_bound")
        assert CANARY not in refused.text
    assert await state_of(live, live.side) == before


async def test_a_conversation_that_openai_names_otherwise_is_passed_over(live):
    """`conversation` is no name of a chat here: the words go to the token's own chat."""
    body = {"input": "hello there", "conversation": "bob", "metadata": {"chat": "bob"}}
    answered = await live.client.post("/v1/responses", json=body, headers=holding("sender"))
    assert answered.status_code == 200
    assert CANARY not in answered.text


@pytest.mark.parametrize("kind", ["sender", "chat", "relay", "old"])
async def test_no_token_goes_on_from_another_tokens_response(live, kind):
    before = await state_of(live, live.side)
    body = {"input": "What is my canary called?", "previous_response_id": live.side.another["response"]}
    refused = await live.client.post("/v1/responses", json=body, headers=holding(kind))
    assert (refused.status_code, code_of(refused)) == (404, "message_not_found")
    shown = await live.client.get(f"/v1/responses/{live.side.another['response']}", headers=holding(kind))
    assert (shown.status_code, code_of(shown)) == (404, "message_not_found")
    assert await state_of(live, live.side) == before


# --- a token of one sender -------------------------------------------------------------------------


async def test_every_message_of_a_bound_token_is_its_senders(live):
    headers = await token(live, Binding(sender="cleo"))
    body = {"messages": [{"role": "user", "content": "hello"}]}
    assert (await live.client.post("/v1/chat/completions", json=body, headers=headers)).status_code == 200
    first = await live.client.post("/v1/responses", json={"input": "one"}, headers=headers)
    second = {"input": "two", "previous_response_id": first.json()["id"]}
    assert "one" in (await live.client.post("/v1/responses", json=second, headers=headers)).text
    for chat in ("cleo", "cleo/work"):
        sent = {"chat": chat, "id": "1", "text": "hello"}
        assert (await live.client.post("/v1/messages", json=sent, headers=headers)).status_code == 202
        named = {**sent, "id": "2", "sender": "cleo"}
        taken = await live.client.post("/v1/messages", json=named, headers=headers)
        await soon(live.runtime.reply_to(taken.json()["message"]))
        refused = await live.client.post("/v1/messages", json={**sent, "id": "3", "sender": "ada"}, headers=headers)
        assert (refused.status_code, code_of(refused)) == (403, "token_bound")
        assert await one_chat(live, chat) == ["cleo", "cleo"]
    found = await listed(live, headers)
    assert [principal for _, principal in found] == ["cleo"] * 4, "cleo, cleo/work, and one for each of OpenAI's routes"


async def listed(live, headers, **query):
    """The sessions that a token is shown, each with its principal."""
    shown = (await live.client.get("/v1/sessions", params=query, headers=headers)).json()["sessions"]
    return [(one["id"], (await live.runtime.db.read(read_session(one["id"]))).principal) for one in shown]


async def test_a_list_holds_the_tokens_own_and_goes_on_after_its_own_only(live):
    mine = await listed(live, holding("bob"))
    bobs = [one for one in await live.runtime.sessions(limit=1_000) if parse(one.address).chat.startswith("bob")]
    assert [shown for shown, _ in mine] == [one.id for one in bobs]
    first = await listed(live, holding("bob"), limit=1)
    assert [*first, *await listed(live, holding("bob"), after=first[0][0])] == mine
    approvals = (await live.client.get("/v1/approvals?state=all", headers=holding("bob"))).json()["approvals"]
    assert [one["id"] for one in approvals] == [live.side.another["approval"]]


@pytest.mark.parametrize("sender", ["ada2", "ad", "Ada", "ada ", "ада"])
async def test_a_name_that_looks_like_anothers_opens_nothing_of_theirs(live, sender):
    headers = await token(live, Binding(sender=sender))
    for chat in ("ada", "ada/danger"):
        refused = await live.client.get("/v1/conversation", params={"chat": chat}, headers=headers)
        assert (refused.status_code, code_of(refused)) == (403, "token_bound")


async def test_a_token_of_a_person_speaks_for_their_linked_accounts_because_the_operator_said_so(live):
    await live.runtime.access.link("telegram:123", "dora")
    headers, body = await token(live, Binding(sender="dora")), {"chat": "dora", "id": "1", "text": "hello"}
    assert (await live.client.post("/v1/messages", json=body, headers=headers)).status_code == 202
    by_chat = await token(live, Binding(chats=frozenset({"dora"})))
    refused = await live.client.post("/v1/messages", json={**body, "id": "2"}, headers=by_chat)
    assert (refused.status_code, code_of(refused)) == (403, "scope_required")


# --- a token of some chats -------------------------------------------------------------------------


async def test_in_a_chat_that_two_tokens_name_two_senders_are_told_apart(live):
    family = frozenset({"family"})
    ada, bob = [await token(live, Binding(sender=name, chats=family)) for name in ("ada", "bob")]
    for n, headers in enumerate((ada, bob, await token(live, Binding(chats=family)))):
        body = {"chat": "family", "id": str(n), "text": "hello"}
        sent = await live.client.post("/v1/messages", json=body, headers=headers)
        assert sent.status_code == 202
        await soon(live.runtime.reply_to(sent.json()["message"]))
    assert await one_chat(live, "family") == ["ada", "bob", "family"]


async def test_a_token_of_one_chat_need_not_name_it_and_one_of_several_must(live):
    one, two = [await token(live, Binding(chats=frozenset(names))) for names in (["attic"], ["attic", "cellar"])]
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
        ("/v1/responses", {"input": "hello"}),
    ):
        assert (await live.client.post(path, json=body, headers=one)).status_code == 200
        unclear = await live.client.post(path, json=body, headers=two)
        assert (unclear.status_code, code_of(unclear)) == (403, "token_bound")
        assert "'attic', 'cellar'" in unclear.json()["error"]["message"]
    assert (await live.client.get("/v1/recall?q=tea", headers=one)).status_code == 200
    assert code_of(await live.client.get("/v1/recall?q=tea", headers=two)) == "token_bound"
    assert code_of(await live.client.get("/v1/recall?q=tea&chat=attic&sender=bob", headers=one)) == "token_bound"


# --- a relay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", [Binding(relay=True), UNSAID], ids=["relay", "made before"])
async def test_a_relay_speaks_for_its_users_and_finds_what_it_sent(live, binding):
    headers = await token(live, binding)
    body = {"chat": f"of-{headers['Authorization']}", "id": "1", "text": "hello", "sender": "gus"}
    sent = (await live.client.post("/v1/messages", json=body, headers=headers)).json()["message"]
    await soon(live.runtime.reply_to(sent))
    assert (await live.client.get(f"/v1/messages/{sent}", headers=headers)).json()["state"] == "answered"
    again = await live.client.post("/v1/messages", json=body, headers=headers)
    assert (again.status_code, again.json()["message"]) == (200, sent)
    theirs = await live.runtime.send("terminal", "hello", sender="gus")
    assert (await live.client.get(f"/v1/messages/{theirs}", headers=headers)).status_code == 200, "of no token"


async def test_an_id_that_another_relay_used_is_taken_and_not_told(live):
    first, second = await token(live, Binding(relay=True)), await token(live, Binding(relay=True))
    body = {"chat": "lobby", "id": "1", "text": "hello", "sender": "gus"}
    sent = (await live.client.post("/v1/messages", json=body, headers=first)).json()["message"]
    asked = {"messages": [{"role": "user", "content": "hi"}], "user": "lobby"}
    await live.client.post("/v1/chat/completions", json=asked, headers={**first, "Idempotency-Key": "k"})
    for path, what, more in (
        ("/v1/messages", body, {}),
        ("/v1/messages", body, EVENTS),
        ("/v1/messages", {**body, "text": "else"}, {}),
        ("/v1/chat/completions", asked, {"Idempotency-Key": "k"}),
    ):
        refused = await live.client.post(path, json=what, headers={**second, **more})
        assert (refused.status_code, code_of(refused)) == (409, "idempotency_conflict")
        assert sent not in refused.text
    assert (await live.client.post("/v1/chat/completions", json=asked, headers=second)).status_code == 200


async def test_a_relay_that_subscribes_hears_a_chat_and_follows_no_message_of_another_token(live):
    url = live.url.replace("http", "ws") + "/v1/ws"
    async with connect(url, proxy=None, additional_headers=holding("relay")) as socket:
        await socket.send(json.dumps({"type": "subscribe", "agent": "main", "chat": "bob/hall"}))
        await said(live, "bob", "bob/hall", "first")
        heard = [json.loads(await soon(socket.recv()))["type"] for _ in range(3)]
        assert heard[:2] == ["ready", "subscribed"]
        message = await said(live, "bob", "bob/hall", "second")
        while (frame := json.loads(await soon(socket.recv()))).get("id") != "bob/hall: second":
            assert frame["type"] != "error"
        await socket.send(json.dumps({"type": "follow", "message": message}))
        while (frame := json.loads(await soon(socket.recv())))["type"] != "error":
            pass
        assert frame["error"]["code"] == "message_not_found"


# --- a login ---------------------------------------------------------------------------------------


async def test_a_login_keeps_the_binding_of_its_token(live):
    n = next(MADE)
    made = AccessToken(
        id=TokenId("made-login"), scopes=SENDING, binding=Binding(sender="ada", chats=frozenset({"den"}))
    )
    await live.runtime.db.write(add_token(made, hash_token(spell_token(n))))
    entered = await live.client.post("/v1/login", json={"token": spell_token(n)}, headers={"Origin": live.url})
    me = entered.json()
    assert (me["sender"], me["chats"], me["relay"]) == ("ada", ["den"], False)
    kept = entered.headers["set-cookie"].partition(";")[0]
    live.client.cookies.clear()
    headers = {"Cookie": kept, "Origin": live.url, "X-Holdfast-CSRF": me["csrf"]}
    bare = {name: value for name, value in live.client.headers.items() if name.lower() != "authorization"}
    operator, live.client.headers = live.client.headers, bare
    try:
        answers = [
            await live.client.post(
                "/v1/messages", json={"chat": chat, "id": "by cookie", "text": "hello"}, headers=headers
            )
            for chat in ("ada", "den", "bob")
        ]
        shown = await live.client.get("/v1/conversation?agent=main&chat=bob", headers=headers)
    finally:
        live.client.headers = operator
    assert [one.status_code for one in answers] == [202, 202, 403]
    assert [code_of(answers[2]), code_of(shown)] == ["token_bound", "token_bound"]
    assert (await live.get("/v1/me")).json()["relay"] is True, "the operator's own token may do everything"


# --- the viewer itself ----------------------------------------------------------------------------


async def test_the_viewer_of_a_bound_token_finds_nothing_elsewhere_whatever_a_handler_asks(live):
    """Routes of today reach some of these checks through others; each holds by itself."""
    viewer, another = Viewer(live.runtime, TOKENS["sender"]), live.side.another
    with pytest.raises(MessageNotFound):
        await viewer.message(another["message"])
    with pytest.raises(SessionNotFound):
        await viewer.prompt(another["session"])
    for asked in (
        viewer.unanswered("bob", "body.", agent="main", channel="openai"),
        viewer.recall("tea", sender="bob"),
    ):
        with pytest.raises(TokenBound):
            await asked
    for closed in (viewer.listen, lambda: viewer.whole("replay"), lambda: viewer.overview("replies")):
        with pytest.raises(TokenBound):
            closed()
