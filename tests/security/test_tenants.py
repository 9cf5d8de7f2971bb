"""For a token that names agents, what exists at another agent and what exists nowhere are one: the same status, code
and words, on every route that takes an id, and over the WebSocket.

Rules: control 5.
"""

import json
import re
from hashlib import sha256
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.api.routes.table import ENDPOINTS
from holdfast.inbox.address import Address
from holdfast.inbox.message import Arrival, Enclosure
from holdfast.kernel.ids import AgentName, Principal, TokenId
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import ReplySettlement
from holdfast.outbox.reply_sql import claim_replies, settle_reply
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.support.fakes import ScriptedModel, calls, happened, says, soon
from tests.support.live import code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
ADA = AgentName("ada")
GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})
BOB = {"Authorization": f"Bearer {spell_token(1)}"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    model = ScriptedModel(says("hello"), calls('memory {"action": "read"}'), says("hello"))
    listed = {"ada": GUARDED, "bob": GUARDED}
    async with serve(tmp_path_factory.mktemp("tenants") / "data", model=model, listed=listed) as running:
        bob = AccessToken(id=TokenId("bob"), scopes=frozenset(Scope), agents=frozenset({"bob"}))
        await running.runtime.db.write(add_token(bob, hash_token(spell_token(1))))
        running.side = await planted(running.runtime)
        yield running


async def planted(runtime):
    """One of every object of ada by the name of its parameter, and ids that do not exist."""
    message = await runtime.send("c", "hello", agent=ADA, id="e1")
    await soon(runtime.reply_to(message))
    (session,) = await runtime.sessions(agent=ADA, chat="c")
    feed = runtime.events()
    await runtime.send("dangerous", "look", agent=ADA)
    await happened(feed, "turn.asked")
    feed.close()
    (approval,) = await runtime.approvals.list()
    forgotten = await runtime.forget(person="nobody", agent=ADA, id="forget-of-ada")
    there = {
        "message": message,
        "response": f"resp_{message}",
        "session": session.id,
        "approval": approval.id,
        "forget": forgotten.id,
        "reply": await uncertain_reply(runtime),
        "hash": await sent_along(runtime),
        "agent": "ada",
        "model": "ada",
        "n": "1",
    }
    nowhere = {
        name: value[:-3] + ("222" if value[-3:] != "222" else "333")
        for name, value in there.items()
        if name not in {"n", "agent", "model"}
    }
    return there, {**nowhere, "n": "1", "agent": "eve", "model": "eve"}


async def sent_along(runtime):
    """An attachment, by its hash."""
    address = Address(agent=ADA, channel="telegram", type="dm", chat="8")
    one = Enclosure(hash=sha256(b"a picture").hexdigest(), name="p", media_type="image/png", body=b"a picture")
    await runtime.gateway.accept(
        Arrival(address=address, event_id="e8", principal=Principal("telegram:8"), text="look", enclosures=(one,))
    )
    return one.hash


async def uncertain_reply(runtime):
    """An uncertain reply to a platform."""
    message = runtime.gateway.new_message()
    address = Address(agent=ADA, channel="telegram", type="dm", chat="7")
    arrival = Arrival(address=address, event_id="e7", principal=Principal("telegram:7"), text="hello", message=message)
    await runtime.gateway.accept(arrival)
    await soon(runtime.reply_to(message))
    (claim,) = await runtime.db.write(claim_replies(runtime._member.node, ADA, "telegram", name="t", limit=1))
    settlement = ReplySettlement(state=ReplyState.UNCERTAIN, part=1, doubts=2, receipt="77", reason="possible")
    await runtime.db.write(settle_reply(claim, settlement))
    return claim.id


# What else a route needs before it reads the id.
BODIES: dict[str, list[Any]] = {
    "/v1/messages": [{"agent": "{agent}", "chat": "c", "id": "e1", "text": "hello"}],
    "/v1/chat/completions": [{"model": "{agent}", "messages": [{"role": "user", "content": "x"}]}],
    "/v1/responses": [
        {"model": "{agent}", "input": "x"},
        {"model": "bob", "input": "x", "previous_response_id": "{response}"},
    ],
    "/v1/approvals/{approval}": [{"decision": "approve"}],
    "/v1/forget": [
        {"session": "{session}"},
        {"session": "{session}", "agent": "bob"},
        {"person": "nobody", "agent": "{agent}"},
    ],
}
QUERIES = {
    "/v1/sessions": ["agent={agent}", "agent={agent}&chat=c"],
    "/v1/operations": ["session={session}"],
    "/v1/recall": ["q=tea&agent={agent}", "q=tea&agent={agent}&chat=c"],
    "/v1/replies": ["agent={agent}"],
    "/v1/spend": ["agent={agent}"],
    "/v1/pairs": ["agent={agent}"],
}


def filled(text, names):
    return re.sub(r"{(\w+)}", lambda found: names.get(found[1], "x"), text)


async def asked(live, one, names, query, body):
    """Status and words of the answer, with the ids that we asked for made alike."""
    path = filled(f"{one.path}?{query}" if query else one.path, names)
    sent = None if body is None else filled(json.dumps(body), names).encode()
    response = await live.client.request(one.method, path, headers=BOB, content=sent)
    told = response.text
    for name in sorted(set(names) - {"n"}, key=lambda name: -len(names[name])):
        told = re.sub(rf"\b{re.escape(names[name])}\b", f"<{name}>", told, flags=re.IGNORECASE)
    return response.status_code, told


def cases():
    for one in ENDPOINTS:
        for query in QUERIES.get(one.path, [""]):
            for body in BODIES.get(one.path, [None]):
                if "{" in f"{one.path}{query}{json.dumps(body) if body else ''}":
                    yield pytest.param(one, query, body, id=f"{one.method} {one.path} {query} {body or ''}")


@pytest.mark.parametrize(("one", "query", "body"), list(cases()))
async def test_what_is_elsewhere_is_nowhere(live, one, query, body):
    there, nowhere = live.side
    first = await asked(live, one, there, query, body)
    assert first == await asked(live, one, nowhere, query, body)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "send", "chat": "c", "id": "e1", "text": "hello", "agent": "{agent}"},
        {"type": "subscribe", "chat": "c", "agent": "{agent}"},
        {"type": "follow", "message": "{message}"},
    ],
    ids=lambda frame: frame["type"],
)
async def test_nor_over_a_websocket(live, frame):
    heard = []
    for names in live.side:
        url = live.url.replace("http", "ws") + "/v1/ws"
        async with connect(url, proxy=None, additional_headers=BOB) as socket:
            assert json.loads(await socket.recv())["type"] == "ready"
            await socket.send(filled(json.dumps(frame), names))
            said = json.loads(await socket.recv())
            heard.append(filled(json.dumps(said), {}).replace(names["message"], "").replace(names["agent"], ""))
    assert heard[0] == heard[1]
    assert '"type": "error"' in heard[0]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/messages", {"agent": "gone", "chat": "c", "id": "1", "text": "x"}),
        ("POST", "/v1/chat/completions", {"model": "gone", "messages": [{"role": "user", "content": "x"}]}),
        ("GET", "/v1/recall?q=tea&agent=gone", None),
    ],
)
async def test_a_token_of_an_agent_that_is_gone_is_not_told_of_the_others(live, method, path, body):
    token = AccessToken(id=TokenId("gone"), scopes=frozenset(Scope), agents=frozenset({"gone"}))
    await live.runtime.db.write(add_token(token, hash_token(spell_token(2))))
    headers = {"Authorization": f"Bearer {spell_token(2)}"}
    response = await live.client.request(method, path, headers=headers, json=body)
    assert (response.status_code, code_of(response)) == (404, "agent_not_found")
    assert "ada" not in response.text
