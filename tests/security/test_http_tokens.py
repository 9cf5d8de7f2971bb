"""What a token is for: its scopes on every route, its agents on every route, and the end of both when it is revoked.

Rules: control 13.
"""

import re

import pytest
import pytest_asyncio

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, revoke_token
from holdfast.api.auth.caller import BELIEVED_MS, Keyring
from holdfast.api.endpoint import ANY, OPEN
from holdfast.api.routes.table import ENDPOINTS
from holdfast.kernel.ids import TokenId
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.sessions.history_sql import list_operations
from holdfast.testing.clock import ManualClock
from holdfast.turns.policy import AgentPolicy
from tests.support.live import code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
CANARY = "canary-5f1d"
MADE = iter(range(1, 10_000))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    listed = {"ada": AgentPolicy(), "bob": AgentPolicy()}
    async with serve(tmp_path_factory.mktemp("tokens") / "data", listed=listed) as running:
        yield running


async def make(live, *scopes, agents=()):
    n = next(MADE)
    token = AccessToken(id=TokenId(f"tok_{n}"), scopes=frozenset(scopes), agents=frozenset(agents))
    await live.runtime.db.write(add_token(token, hash_token(spell_token(n))))
    return token.id, {"Authorization": f"Bearer {spell_token(n)}"}


def path_of(one):
    return re.sub(r"{(\w+)}", "1", one.path)


GUARDED = [one for one in ENDPOINTS if one.scope not in {OPEN, ANY}]
SCOPES = {
    Scope.SEND: {"POST /v1/messages", "POST /v1/chat/completions", "POST /v1/responses"},
    Scope.OPERATE: {
        "POST /v1/sessions/{session}/compress",
        "POST /v1/deliveries/{delivery}/replay",
        "POST /v1/forget",
        "POST /v1/approvals/{approval}",
        "POST /v1/replies/{reply}/resend",
        "POST /v1/finalisations/{finalisation}/retry",
        "POST /v1/deliveries/replay",
        "POST /v1/deliveries/drop",
        "POST /v1/deliveries/settle",
        "POST /v1/replies/resend",
        "POST /v1/replies/drop",
        "POST /v1/replies/settle",
        "POST /v1/messages/drop",
        "POST /v1/agents/{agent}/pause",
        "POST /v1/agents/{agent}/resume",
    },
    Scope.ADMIN: {
        "GET /v1/pairs",
        "POST /v1/pairs/{code}",
        "POST /v1/unpair",
        "GET /v1/links",
        "POST /v1/links",
        "POST /v1/unlink",
        "POST /v1/addresses/move",
        "GET /v1/actions",
    },
}


async def test_what_changes_something_needs_more_than_reading():
    """Written down once more: the other tests take the scopes from the table that is served."""
    found = {scope: {f"{one.method} {one.path}" for one in GUARDED if one.scope is scope} for scope in SCOPES}
    assert found == SCOPES
    assert {one.method for one in GUARDED if one.scope is Scope.READ} == {"GET"}


@pytest.mark.parametrize("one", GUARDED, ids=lambda one: f"{one.method} {one.path}")
async def test_every_route_refuses_a_token_without_its_scope_and_names_it(live, one):
    for held in Scope:
        token = AccessToken(id=TokenId("t"), scopes=frozenset({held}))
        _, headers = await make(live, held)
        response = await live.client.request(one.method, path_of(one), headers=headers)
        if token.may(one.scope):
            assert response.status_code not in {401, 403}
        else:
            assert (response.status_code, code_of(response)) == (403, "scope_required")
            assert one.scope.value in response.json()["error"]["message"]


async def test_a_send_token_sends_and_cannot_read_what_was_said(live):
    _, headers = await make(live, Scope.SEND)
    body = {"agent": "ada", "chat": "c", "id": "s1", "text": "hello"}
    accepted = await live.client.post("/v1/messages", json=body, headers=headers)
    assert accepted.status_code == 202
    read = await live.client.get(f"/v1/messages/{accepted.json()['message']}", headers=headers)
    assert (read.status_code, code_of(read)) == (403, "scope_required")


async def test_a_send_token_cannot_speak_for_somebody_on_another_channel(live):
    """A sender could otherwise reach a person's words from Telegram by claiming to be that person."""
    _, headers = await make(live, Scope.SEND)
    body = {"agent": "ada", "chat": "c", "id": "s9", "text": "hello", "sender": "telegram:123"}
    refused = await live.client.post("/v1/messages", json=body, headers=headers)
    assert (refused.status_code, code_of(refused)) == (403, "scope_required")
    asked = {"model": "ada", "messages": [{"role": "user", "content": "hi"}], "user": "telegram:123"}
    refused = await live.client.post("/v1/chat/completions", json=asked, headers=headers)
    assert (refused.status_code, code_of(refused)) == (403, "scope_required")
    assert (await live.client.post("/v1/messages", json=body)).status_code == 202, "the operator may"


async def test_the_document_says_the_scope_of_every_route(live):
    document = (await live.get("/openapi.json")).json()
    for one in ENDPOINTS:
        described = document["paths"][one.path][one.method.lower()]
        if one.is_open:
            assert described["security"] == []
        else:
            assert described["x-scope"] == (one.scope.value if isinstance(one.scope, Scope) else one.scope)


# --- revoking --------------------------------------------------------------------------------------


async def test_a_revoked_token_is_refused(live):
    id_, headers = await make(live, Scope.READ)
    await live.runtime.db.write(revoke_token(id_))
    response = await live.client.get("/v1/sessions", headers=headers)
    assert (response.status_code, code_of(response)) == (401, "auth_required")


async def test_what_was_believed_of_a_token_is_believed_for_a_second_at_most(live):
    id_, headers = await make(live, Scope.READ)
    secret, clock = headers["Authorization"].removeprefix("Bearer "), ManualClock()
    keyring = Keyring("operator", live.runtime.db, clock)
    assert await keyring.by_secret(secret) is not None
    await live.runtime.db.write(revoke_token(id_))
    clock.advance(BELIEVED_MS)
    assert await keyring.by_secret(secret) is None


async def test_a_token_that_was_never_made_is_refused(live):
    for wrong in (spell_token(12345678), "hf_", "operator", "tok_1"):
        response = await live.client.get("/v1/sessions", headers={"Authorization": f"Bearer {wrong}"})
        assert response.status_code in {401, 429}


# --- tenants ---------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def planted(live):
    """Everything that an agent can have, with a canary in it; the paths that would lead there."""
    runtime = live.runtime
    message = await runtime.send(CANARY, f"My {CANARY} is called {CANARY}.", agent="ada", sender=CANARY, id=CANARY)
    await runtime.reply_to(message)
    await runtime.ask(CANARY, "I like tea.", agent="ada")
    (session,) = await runtime.sessions(agent="ada", chat=CANARY)
    operation = await runtime.begin_compression(session.id)
    feed = runtime.events()
    while (await runtime.db.read(list_operations(session=session.id)))[0].ended_at is None:
        await feed.next_within(1_000)
    feed.close()
    forget = await runtime.forget(person="nobody", agent="ada", id="forget-of-ada")
    (delivery, *_) = await runtime.deliveries()
    return {
        "message": message,
        "session": session.id,
        "n": "1",
        "operation": operation.id,
        "forget": forget.id,
        "delivery": delivery.id,
        "agent": "ada",
        "channel": "telegram",
    }


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
async def test_a_token_of_one_agent_never_sees_anothers_canary_on_any_route(live, planted, one):
    _, headers = await make(live, Scope.ADMIN, agents=["bob"])
    path = re.sub(r"{(\w+)}", lambda name: planted.get(name[1], "x"), one.path)
    bodies = {
        "/v1/messages": {"agent": "ada", "chat": CANARY, "id": CANARY, "text": "hello"},
        "/v1/forget": {"session": planted["session"]},
    }
    queries = [
        {},
        {"agent": "ada"},
        {"agent": "ada", "chat": CANARY, "q": CANARY},
        {"q": CANARY},
        {"session": planted["session"]},
    ]
    for query in queries:
        wanted = {name: value for name, value in query.items() if name in one.query}
        response = await live.client.request(
            one.method, path, headers=headers, params=wanted, json=bodies.get(one.path)
        )
        leaked = response.text.replace(f"{planted['session']}", "") if "{" not in one.path else response.text
        assert CANARY not in leaked
        assert "My " not in leaked
        if "{session}" in one.path or "{message}" in one.path:
            assert response.status_code == 404
            assert code_of(response) in {"session_not_found", "message_not_found"}


@pytest.mark.parametrize(
    "case",
    [
        ("POST", "/v1/messages", {"agent": "ada", "chat": "c", "id": "1", "text": "x"}, 404, "agent_not_found"),
        ("GET", "/v1/recall?q=tea&agent=ada", None, 404, "agent_not_found"),
        ("GET", "/v1/operations", None, 400, "invalid_input"),
        ("GET", "/v1/operations?session={session}", None, 404, "session_not_found"),
        ("GET", "/v1/sessions/{session}/entries", None, 404, "session_not_found"),
        ("GET", "/v1/sessions/{session}/context", None, 404, "session_not_found"),
        ("GET", "/v1/sessions/{session}/snapshots/1", None, 404, "session_not_found"),
        ("POST", "/v1/sessions/{session}/compress", None, 404, "session_not_found"),
        ("GET", "/v1/messages/{message}", None, 404, "message_not_found"),
        ("GET", "/v1/messages/{message}/stream", None, 404, "message_not_found"),
        ("POST", "/v1/deliveries/{delivery}/replay", None, 403, "scope_required"),
        ("POST", "/v1/forget", {"session": "{session}"}, 404, "session_not_found"),
        ("POST", "/v1/forget", {"person": "user"}, 403, "scope_required"),
        ("POST", "/v1/forget", {"person": "user", "agent": "ada"}, 404, "agent_not_found"),
        ("GET", "/v1/forget/{forget}", None, 404, "forget_not_found"),
        ("GET", "/metrics", None, 403, "scope_required"),
    ],
)
async def test_what_belongs_to_another_agent_is_not_there(live, planted, case):
    method, path, body, status, code = case
    _, headers = await make(live, Scope.ADMIN, agents=["bob"])
    for name, value in planted.items():
        path = path.replace(f"{{{name}}}", value)
    body = {key: value.format(**planted) for key, value in body.items()} if body else None
    response = await live.client.request(method, path, headers=headers, json=body)
    assert (response.status_code, code_of(response)) == (status, code)


async def test_a_token_of_some_agents_works_with_those(live, planted):
    _, headers = await make(live, Scope.ADMIN, agents=["ada", "bob"])

    async def ask(path):
        response = await live.client.get(path, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()

    await live.runtime.ask("c2", "hello", agent="bob")
    assert {one["agent"] for one in (await ask("/v1/sessions"))["sessions"]} == {"ada", "bob"}
    assert len((await ask("/v1/sessions?limit=1"))["sessions"]) == 1
    assert (await ask(f"/v1/sessions/{planted['session']}/entries"))["entries"]
    assert (await ask(f"/v1/messages/{planted['message']}"))["state"] == "answered"
    assert (await ask("/v1/deliveries"))["deliveries"]
    assert (await ask("/v1/me"))["agents"] == ["ada", "bob"]
    assert (await ask(f"/v1/forget/{planted['forget']}"))["forget"] == planted["forget"]


async def test_a_token_that_another_process_revokes_is_refused_by_this_one(tmp_path):
    async with serve(tmp_path) as live, await open_runtime(tmp_path, agents=make_agents(), serve=False) as other:
        id_, headers = await make(live, Scope.READ)
        await other.db.write(revoke_token(id_))
        response = await live.client.get("/v1/sessions", headers=headers)
        assert (response.status_code, code_of(response)) == (401, "auth_required")
