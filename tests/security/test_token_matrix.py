"""Every route, with every kind of token, about the token's own chat, another token's chat, and a chat that does not
exist.

The table says what each cell answers. A route that is not in it fails the first test, so none is forgotten. For a bound
token another's chat and an unknown one get the same answer, in the same words, and nothing changes.
"""

import itertools
import json

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import ANY, OPEN
from holdfast.api.routes.table import ENDPOINTS
from tests.security.bound_world import BOUND, CANARY, LISTED, filled, holding, plant, state_of, telling_model
from tests.support.live import code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
PLACES = ("own", "another", "unknown")
KINDS = (*BOUND, "relay", "old", "other agent", "reader")
OK = "ok"
NUMBERS = itertools.count()
TEXT = "What do you know?"


def same(code):
    return (code, code, code)


def table(*, bound, relay, other, reader):
    """A row: what each kind of token is answered about its own chat, another's, and none. Robots are bound here."""
    return {**dict.fromkeys(BOUND, bound), "relay": relay, "old": relay, "other agent": other, "reader": reader}


def saying():
    """A chat is named: by its name alone a bound token is refused."""
    refused = (OK, "token_bound", "token_bound")
    return table(bound=refused, relay=same(OK), other=same("agent_not_found"), reader=same("scope_required"))


def looking():
    return {**saying(), "reader": same(OK)}


def by_message(*, reads):
    """A message by its id: a relay finds what it sent itself, and these were sent by others."""
    missing = "message_not_found"
    reader = (OK, OK, missing) if reads else same("scope_required")
    return table(bound=(OK, missing, missing), relay=same(missing), other=same(missing), reader=reader)


def by_session(missing="session_not_found"):
    found = (OK, OK, missing)
    return table(bound=(OK, missing, missing), relay=found, other=same(missing), reader=found)


def acting(missing):
    """It needs the scope operate, which only the bound tokens of this table have."""
    refused = same("scope_required")
    return table(bound=(OK, missing, missing), relay=refused, other=refused, reader=refused)


def overseeing(other=OK):
    """It concerns more than a few chats."""
    return table(bound=same("token_bound"), relay=same(OK), other=same(other), reader=same(OK))


def overseer_acts():
    refused = same("scope_required")
    return table(bound=same("token_bound"), relay=refused, other=refused, reader=refused)


def everybody(other=OK):
    return table(bound=same(OK), relay=same(OK), other=same(other), reader=same(OK))


ASK = {"model": "main", "messages": [{"role": "user", "content": TEXT}]}
FOUND_ATTACHMENT = ("attachment_not_found", OK, "attachment_not_found")
NO_ATTACHMENT = same("attachment_not_found")
ADMIN_BODIES = {
    "/v1/pairs/{code}": {"decision": "admit"},
    "/v1/unpair": {"principal": "bob"},
    "/v1/links": {"principal": "telegram:7", "person": "bob"},
    "/v1/unlink": {"principal": "telegram:7"},
    "/v1/addresses/move": {"old": "agent:main:http:dm:bob", "new": "agent:main:http:dm:ada"},
}
# Route, with its query; what is sent; what is answered.
ROUTES = [
    ("POST /v1/messages", {"agent": "main", "chat": "{chat}", "id": "{id}", "text": TEXT}, saying()),
    ("POST /v1/messages", {"agent": "main", "chat": "{chat}/old", "id": "{id}", "text": "/delete"}, saying()),
    (
        "POST /v1/messages",
        {"agent": "main", "chat": "{chat}/danger", "id": "{id}", "text": "/approve {approval}"},
        saying(),
    ),
    ("POST /v1/chat/completions", {**ASK, "user": "{chat}"}, saying()),
    ("POST /v1/responses", {"model": "main", "input": TEXT, "user": "{chat}"}, saying()),
    (
        "POST /v1/responses",
        {"input": TEXT, "model": "main", "previous_response_id": "{response}"},
        by_message(reads=False),
    ),
    ("GET /v1/conversation?agent=main&chat={chat}", None, looking()),
    ("GET /v1/messages", None, overseeing()),
    ("GET /v1/messages/{message}", None, by_message(reads=True)),
    (
        "GET /v1/messages/{message}/timeline",
        None,
        {**by_message(reads=True), **dict.fromkeys(BOUND, same("token_bound"))},
    ),
    ("GET /v1/messages/{message}/stream", None, by_message(reads=True)),
    ("GET /v1/responses/{response}", None, by_message(reads=True)),
    ("GET /v1/models", None, everybody()),
    ("GET /v1/models/main", None, everybody(other="agent_not_found")),
    ("GET /readyz", None, everybody()),
    ("GET /v1/me", None, everybody()),
    ("GET /v1/sessions?agent=main&chat={chat}", None, everybody()),
    ("GET /v1/sessions?agent=main&after={session}", None, by_session()),
    ("GET /v1/sessions/{session}/entries", None, by_session()),
    ("GET /v1/sessions/{session}/context", None, by_session()),
    ("GET /v1/sessions/{session}/snapshots/{n}", None, by_session()),
    (
        "GET /v1/operations?session={session}",
        None,
        {**by_session(), "relay": same(OK), "old": same(OK), "reader": same(OK)},
    ),
    ("GET /v1/operations", None, overseeing(other="invalid_input")),
    ("GET /v1/deliveries", None, overseeing()),
    ("GET /v1/recall?q=canary&agent=main&chat={chat}", None, looking()),
    ("GET /v1/recall?q=canary&agent=main&sender={chat}", None, {**looking(), "chat": same("token_bound")}),
    ("GET /v1/status", None, overseeing()),
    ("GET /v1/samples", None, overseeing()),
    ("GET /v1/nodes", None, overseeing(other="scope_required")),
    ("GET /v1/approvals?state=all", None, everybody()),
    ("GET /v1/approvals/{approval}", None, by_session("approval_not_found")),
    ("GET /v1/replies", None, overseeing()),
    ("GET /v1/finalisations", None, overseeing(other="scope_required")),
    ("GET /v1/spend", None, overseeing()),
    ("GET /v1/channels", None, overseeing()),
    ("GET /v1/tools", None, overseeing()),
    ("GET /v1/pauses", None, overseeing()),
    ("GET /metrics", None, overseeing(other="scope_required")),
    ("GET /v1/forget/{forget}", None, by_session("forget_not_found")),
    (
        "GET /v1/attachments/{hash}",
        None,
        table(bound=NO_ATTACHMENT, relay=FOUND_ATTACHMENT, other=NO_ATTACHMENT, reader=FOUND_ATTACHMENT),
    ),
    (
        "POST /v1/approvals/{approval}",
        {"decision": "deny"},
        {**acting("approval_not_found"), "robot": same("robot_refused")},
    ),
    ("POST /v1/forget", {"session": "{old}"}, acting("session_not_found")),
    ("POST /v1/forget", {"person": "{chat}"}, overseer_acts()),
    ("POST /v1/deliveries/{delivery}/replay", None, overseer_acts()),
    ("POST /v1/replies/{reply}/resend", None, overseer_acts()),
    ("POST /v1/finalisations/{finalisation}/retry", None, overseer_acts()),
    ("POST /v1/deliveries/replay", {"all": True}, overseer_acts()),
    ("POST /v1/deliveries/drop", {"all": True}, overseer_acts() | {"robot": same("robot_refused")}),
    ("POST /v1/deliveries/settle", {"all": True}, overseer_acts() | {"robot": same("robot_refused")}),
    ("POST /v1/replies/resend", {"all": True}, overseer_acts()),
    ("POST /v1/replies/drop", {"all": True}, overseer_acts() | {"robot": same("robot_refused")}),
    ("POST /v1/replies/settle", {"all": True}, overseer_acts() | {"robot": same("robot_refused")}),
    ("POST /v1/messages/drop", {"all": True}, overseer_acts() | {"robot": same("robot_refused")}),
    ("POST /v1/agents/{agent}/pause", None, overseer_acts()),
    ("POST /v1/agents/{agent}/resume", None, overseer_acts()),
    ("POST /v1/sessions/{session}/compress", None, acting("session_not_found")),
    ("POST /v1/logout", None, everybody()),
]
NO_TOKEN = {"GET /healthz", "GET /", "POST /v1/login", "POST /v1/hooks/{agent}/{channel}"}
IS_LISTED = {"GET /v1/models/main": "GET /v1/models/{model}"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix") / "data"
    async with serve(folder, model=telling_model(), listed=LISTED) as running:
        running.side = await plant(running)
        yield running


async def test_every_route_is_in_the_table():
    listed = {IS_LISTED.get(route, route.partition("?")[0]) for route, _, _ in ROUTES}
    admin = {f"{one.method} {one.path}" for one in ENDPOINTS if one.scope is Scope.ADMIN}
    assert listed | admin | NO_TOKEN == {f"{one.method} {one.path}" for one in ENDPOINTS}
    assert {f"{one.method} {one.path}" for one in ENDPOINTS if one.scope == OPEN} == NO_TOKEN
    assert not listed & (admin | NO_TOKEN)
    assert {one.path for one in ENDPOINTS if one.scope == ANY} == {
        "/v1/models",
        "/v1/models/{model}",
        "/readyz",
        "/v1/logout",
        "/v1/me",
    }


async def asked(live, route, body, names, headers):
    """What a cell answers: `ok` or the code, and the words with the ids that were asked for taken out."""
    method, _, path = filled(route, names).partition(" ")
    sent = None if body is None else filled(body, {**names, "id": f"cell-{next(NUMBERS)}"})
    response = await live.client.request(method, path, headers=headers, json=sent)
    if response.is_success or response.status_code == 409:  # something is decided or under way already
        return OK, response.text
    words = response.text
    for name, value in sorted(names.items(), key=lambda one: -len(one[1])):
        words = words.replace(value, f"<{name}>")
    return code_of(response), words


FOR_PEOPLE = {("robot", "POST /v1/forget"): same("robot_refused")}  # of the person or the session to forget
CELLS = [
    pytest.param(
        kind,
        route,
        body,
        FOR_PEOPLE.get((kind, route), expected[kind]),
        id=f"{kind}: {route} {json.dumps(body) if body else ''}",
    )
    for route, body, expected in ROUTES
    for kind in KINDS
]


@pytest.mark.parametrize(("kind", "route", "body", "expected"), CELLS)
async def test_what_a_token_is_answered(live, kind, route, body, expected):
    world, headers = live.side, holding(kind)
    before = await state_of(live, world)
    there = await asked(live, route, body, world.another, headers)
    nowhere = await asked(live, route, body, world.unknown, headers)
    if kind in BOUND:
        assert CANARY not in there[1]
        assert there == nowhere, "an answer does not tell whether another's chat exists"
        assert await state_of(live, world) == before
    own = await asked(live, route, body, world.own, headers)
    assert (own[0], there[0], nowhere[0]) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("one", [one for one in ENDPOINTS if one.scope is Scope.ADMIN], ids=lambda one: one.path)
async def test_what_is_an_admins_is_no_other_tokens(live, kind, one):
    body = ADMIN_BODIES.get(one.path)
    response = await live.client.request(one.method, one.path, headers=holding(kind), json=body)
    assert (response.status_code, code_of(response)) == (403, "scope_required")


FRAMES = [
    ({"type": "send", "agent": "main", "chat": "{chat}", "id": "{id}", "text": TEXT}, saying()),
    ({"type": "send", "agent": "main", "chat": "{chat}/old", "id": "{id}", "text": "/delete"}, saying()),
    ({"type": "subscribe", "agent": "main", "chat": "{chat}"}, looking()),
    ({"type": "follow", "message": "{message}"}, by_message(reads=True)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("frame", "row"), FRAMES, ids=lambda one: one.get("type"))
async def test_what_a_token_is_told_over_a_websocket(live, kind, frame, row):
    world, told = live.side, []
    before = await state_of(live, world)
    url = live.url.replace("http", "ws") + "/v1/ws"
    for place in (world.another, world.unknown, world.own):
        async with connect(url, proxy=None, additional_headers=holding(kind)) as socket:
            assert json.loads(await socket.recv())["type"] == "ready"
            await socket.send(json.dumps(filled(frame, {**place, "id": f"frame-{next(NUMBERS)}"})))
            heard = json.loads(await socket.recv())
            told.append(heard["error"]["code"] if heard["type"] == "error" else OK)
            if kind in BOUND and place is world.another:
                assert heard["type"] == "error"
                assert await state_of(live, world) == before
    assert (told[2], told[0], told[1]) == row[kind]
