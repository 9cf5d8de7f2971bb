"""A gateway with two people and one of everything that each of them has, for the matrix of tokens and routes."""

import json
from dataclasses import dataclass
from hashlib import sha256

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.inbox.address import Address
from holdfast.inbox.message import Arrival, Enclosure
from holdfast.kernel.ids import AgentName, Principal, SessionId, TokenId
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.history_sql import list_operations, read_conversation, read_session
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.support.fakes import ScriptedModel, calls, happened, says, soon

MAIN = AgentName("main")
GUARDED = AgentPolicy(
    approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={}, thresholds=Thresholds(context_tokens=1_000)
)
LISTED = {"main": GUARDED, "other": GUARDED}
DANGEROUS = "call the tool"
BOUND_SCOPES = frozenset({Scope.SEND, Scope.READ, Scope.OPERATE})
TENANT = frozenset({Scope.SEND, Scope.READ})
TOKENS = {
    "sender": AccessToken(id=TokenId("t-sender"), scopes=BOUND_SCOPES, binding=Binding(sender="ada")),
    "chat": AccessToken(
        id=TokenId("t-chat"), scopes=BOUND_SCOPES, binding=Binding(chats=frozenset({"ada", "ada/danger", "ada/old"}))
    ),
    "robot": AccessToken(id=TokenId("t-robot"), scopes=BOUND_SCOPES, robot=True, binding=Binding(sender="ada")),
    "relay": AccessToken(id=TokenId("t-relay"), scopes=TENANT, binding=Binding(relay=True)),
    "old": AccessToken(id=TokenId("t-old"), scopes=TENANT),
    "other agent": AccessToken(
        id=TokenId("t-other"), scopes=TENANT, agents=frozenset({"other"}), binding=Binding(relay=True)
    ),
    "reader": AccessToken(id=TokenId("t-reader"), scopes=frozenset({Scope.READ})),
    "bob": AccessToken(id=TokenId("t-bob"), scopes=BOUND_SCOPES, binding=Binding(sender="bob")),
}
BOUND = ("sender", "chat", "robot")
CANARY = "Byron"


def telltale(request):
    """Say everything that the model was told by people, or call the dangerous tool when asked to."""
    if request.messages[-1].role == "user" and DANGEROUS in request.messages[-1].content:
        return calls('memory {"action": "read"}')(request)
    return says(" | ".join(one.content for one in request.messages if one.role == "user"))(request)


def telling_model():
    return ScriptedModel(otherwise=telltale)


def holding(kind):
    return {"Authorization": f"Bearer {spell_token(1 + list(TOKENS).index(kind))}"}


@dataclass(frozen=True)
class World:
    """The ids of what each place has, by the names that routes give their parameters."""

    own: dict[str, str]
    another: dict[str, str]
    unknown: dict[str, str]


async def plant(live):
    for kind, token in TOKENS.items():
        secret = spell_token(1 + list(TOKENS).index(kind))
        await live.runtime.db.write(add_token(token, hash_token(secret)))
    own = await planted(live, "ada", "sender", "The harbour is blue.")
    another = {**await planted(live, "bob", "bob", f"My canary is called {CANARY}."), "hash": await sent_along(live)}
    unknown = {name: altered(value) for name, value in another.items()}
    return World(own, another, {**unknown, "chat": "eve", "n": "1"})


def altered(value):
    return value[:-3] + ("222" if value[-3:] != "222" else "333")


async def planted(live, who, kind, words):
    """What somebody has after talking with a token of their own."""
    message = await said(live, kind, who, words)
    await said(live, kind, who, "It rains.")
    await said(live, kind, who, "/compress")
    (session,) = await live.runtime.sessions(chat=who)
    old = await said(live, kind, f"{who}/old", words)
    (forgotten,) = await live.runtime.sessions(chat=f"{who}/old")
    feed = live.runtime.events()
    await said(live, kind, f"{who}/danger", DANGEROUS, answered=False)
    await happened(feed, "turn.asked")
    feed.close()
    approvals = await live.runtime.approvals.list()
    asked = next(one for one in approvals if one.principal == who)
    forgetting = await live.runtime.forget(session=forgotten.id, id=f"forget-of-{who}-123")
    return {
        "chat": who,
        "message": message,
        "response": f"resp_{message}",
        "session": session.id,
        "old": forgotten.id,
        "approval": asked.id,
        "forget": forgetting.id,
        "delivery": f"dlv_of_{who}_123",
        "reply": f"rep_of_{who}_123",
        "finalisation": f"fin_of_{who}_123",
        "hash": sha256(f"nothing of {who}".encode()).hexdigest(),
        "n": "1",
        "old_message": old,
    }


async def said(live, kind, chat, text, *, answered=True):
    body = {"agent": "main", "chat": chat, "id": f"{chat}: {text}", "text": text}
    response = await live.client.post("/v1/messages", json=body, headers=holding(kind))
    assert response.status_code == 202, response.text
    if answered:
        await soon(live.runtime.reply_to(response.json()["message"]))
    return response.json()["message"]


async def sent_along(live):
    """An attachment of a platform's chat, by its hash."""
    address = Address(agent=MAIN, channel="telegram", type="dm", chat="8")
    one = Enclosure(hash=sha256(b"a picture").hexdigest(), name="p", media_type="image/png", body=b"a picture")
    await live.runtime.gateway.accept(
        Arrival(address=address, event_id="e8", principal=Principal("telegram:8"), text="look", enclosures=(one,))
    )
    return one.hash


async def state_of(live, world):
    """What somebody else's chats are like: nothing that is refused changes any of it."""
    chats = [world.another["chat"], f"{world.another['chat']}/danger", f"{world.another['chat']}/old"]
    addresses = [str(Address(agent=MAIN, channel=channel, type="dm", chat=chat)) for chat in chats for channel in WAYS]
    lines = [await live.runtime.db.read(read_conversation(one, before=2**62, limit=500)) for one in addresses]
    session = await live.runtime.db.read(read_session(SessionId(world.another["session"])))
    approvals = [
        (one.id, one.decision) for one in await live.runtime.approvals.list(decided=True) if one.principal == "bob"
    ]
    return lines, session, approvals, await live.runtime.db.read(list_operations(session=session.id))


WAYS = ("http", "openai")


def filled(value, names):
    text = json.dumps(value)
    for name, there in names.items():
        text = text.replace("{" + name + "}", json.dumps(there)[1:-1])
    return json.loads(text)
