"""A token that names agents decides what concerns those agents: their strangers, their approvals, their spending.
Another agent's things are answered like things that do not exist, in the same words, and stay as they were. Linked
accounts, moved chats and tokens concern every agent, and are refused.
"""

import pytest
import pytest_asyncio

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, find_token
from holdfast.inbox.access import PairingAsk
from holdfast.inbox.access_sql import ask_pairing, is_admitted
from holdfast.inbox.address import Address
from holdfast.kernel.ids import AgentName, MailboxId, Principal, ReplyId, TokenId
from holdfast.sessions.history_sql import list_operations
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from holdfast.turns.spend_sql import Spend, record_spend
from tests.support.fakes import ScriptedModel, calls, happened
from tests.support.live import code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
ADA, BOB, CY = AgentName("ada"), AgentName("bob"), AgentName("cy")
GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})
NOWHERE = "ZZZZZZZZ"
CODES = iter(f"7K2MP{first}{second}X" for first in "23456789" for second in "23456789")
GUEST = Principal("telegram:7")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    model = ScriptedModel(otherwise=calls('memory {"action": "read"}'))
    listed = {"ada": GUARDED, "bob": GUARDED, "cy": GUARDED}
    async with serve(tmp_path_factory.mktemp("limited") / "data", model=model, listed=listed) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def bobs(live):
    """A client with a token that may do everything for bob and cy, and nothing else."""
    number = int.from_bytes(b"bob")
    if await live.runtime.db.read(find_token(hash_token(spell_token(number)))) is None:
        token = AccessToken(id=TokenId("bobs"), scopes=frozenset(Scope), agents=frozenset({"bob", "cy"}))
        await live.runtime.db.write(add_token(token, hash_token(spell_token(number))))
    headers = {"Authorization": f"Bearer {spell_token(number)}"}

    async def ask(method, path, body=None):
        return await live.client.request(method, path, headers=headers, json=body)

    return ask


async def stranger(live, agent):
    """Somebody who asks the agent to be let in; their code."""
    code = next(CODES)
    address = str(Address(agent=agent, channel="telegram", type="dm", chat=code))
    await live.runtime.db.write(
        ask_pairing(
            PairingAsk(
                agent=agent,
                channel="telegram",
                principal=GUEST,
                address=address,
                code=code,
                reply=ReplyId(f"rep_{code}"),
                new_mailbox=MailboxId(f"box_{code}"),
            )
        )
    )
    return code


async def dangerous(live, agent):
    """A tool call of the agent that waits for a human."""
    feed = live.runtime.events()
    await live.runtime.send("dangerous", "look", agent=agent)
    await happened(feed, "turn.asked")
    feed.close()
    return next(one.id for one in await live.runtime.approvals.list() if one.agent == agent)


async def test_strangers_are_shown_and_let_in_at_the_tokens_own_agents_only(live, bobs):
    theirs, ours = await stranger(live, ADA), await stranger(live, BOB)
    shown = (await bobs("GET", "/v1/pairs")).json()["pairs"]
    assert [one["agent"] for one in shown] == ["bob"]
    admitted = await bobs("POST", f"/v1/pairs/{ours}", {"decision": "admit"})
    assert (admitted.status_code, admitted.json()["state"]) == (200, "admitted")
    assert await live.runtime.db.read(is_admitted(BOB, GUEST))
    elsewhere = await bobs("POST", f"/v1/pairs/{theirs}", {"decision": "admit"})
    nowhere = await bobs("POST", f"/v1/pairs/{NOWHERE}", {"decision": "admit"})
    assert (elsewhere.status_code, code_of(elsewhere)) == (404, "pairing_not_found")
    assert elsewhere.text.replace(theirs, NOWHERE) == nowhere.text
    assert not await live.runtime.db.read(is_admitted(ADA, GUEST))
    assert (await live.post(f"/v1/pairs/{theirs}", {"decision": "admit"})).status_code == 200, "the operator may"
    await let_go(live)


async def let_go(live):
    await live.runtime.access.unpair(GUEST)


async def test_strangers_of_an_agent_that_is_not_the_tokens_and_of_none_are_the_same(live, bobs):
    await stranger(live, ADA)
    elsewhere, nowhere = await bobs("GET", "/v1/pairs?agent=ada"), await bobs("GET", "/v1/pairs?agent=eve")
    assert (elsewhere.status_code, elsewhere.json()) == (200, {"pairs": []})
    assert nowhere.json() == elsewhere.json()
    await let_go(live)


async def test_a_decision_is_on_record_under_the_tokens_name(live, bobs):
    code = await stranger(live, BOB)
    await bobs("POST", f"/v1/pairs/{code}", {"decision": "deny"})
    newest = max(await live.runtime.db.read(list_operations()), key=lambda one: one.started_at)
    assert (newest.kind, newest.detail["agent"], newest.owner) == ("deny", "bob", "token:bobs")
    await let_go(live)


@pytest.mark.parametrize("body", [{}, {"agent": "ada"}, {"agent": "eve"}], ids=str)
async def test_access_to_another_agent_cannot_be_revoked(live, bobs, body):
    for agent in (ADA, BOB, CY):
        await live.runtime.access.pair(await stranger(live, agent))
    gone = await bobs("POST", "/v1/unpair", {"principal": GUEST, **body})
    assert (gone.status_code, gone.json()["agents"]) == (200, [] if body else ["bob", "cy"])
    assert await live.runtime.db.read(is_admitted(ADA, GUEST))
    assert await live.runtime.db.read(is_admitted(BOB, GUEST)) == bool(body)
    await let_go(live)


REFUSED = [
    ("GET", "/v1/links", None, "links"),
    ("POST", "/v1/links", {"principal": "telegram:7", "person": "bob"}, "link"),
    ("POST", "/v1/unlink", {"principal": "telegram:7"}, "unlink"),
    (
        "POST",
        "/v1/addresses/move",
        {"old": "agent:bob:telegram:dm:1", "new": "agent:bob:telegram:dm:2"},
        "move",
    ),
    ("GET", "/metrics", None, "metrics"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
async def test_what_concerns_every_agent_is_refused_even_for_its_own(live, bobs, case):
    method, path, body, what = case
    response = await bobs(method, path, body)
    assert (response.status_code, code_of(response)) == (403, "scope_required")
    told = response.json()["error"]["message"]
    assert told == f"this needs a token for all agents, not for some of them ({what})"
    assert not await live.runtime.access.links()


async def test_approvals_of_another_agent_neither_show_nor_hide_nor_can_be_decided(live, bobs):
    theirs, ours = await dangerous(live, ADA), await dangerous(live, BOB)
    for state in ("open", "all"):
        shown = (await bobs("GET", f"/v1/approvals?state={state}&limit=1")).json()["approvals"]
        assert [one["id"] for one in shown] == [ours], "ada's is older"
    elsewhere = await bobs("POST", f"/v1/approvals/{theirs}", {"decision": "approve"})
    nowhere = await bobs("POST", "/v1/approvals/ZZZZZZ", {"decision": "approve"})
    assert (elsewhere.status_code, code_of(elsewhere)) == (404, "approval_not_found")
    assert elsewhere.text.replace(theirs, "ZZZZZZ") == nowhere.text
    assert (await live.runtime.approvals.find(theirs)).decision is None
    denied = await bobs("POST", f"/v1/approvals/{ours}", {"decision": "deny"})
    assert (denied.status_code, denied.json()["decided_by"]) == (200, "token:bobs")


async def test_spending_is_that_of_the_tokens_own_agents(live, bobs):
    for agent, cost in ((ADA, 500), (BOB, 20), (CY, 3)):
        spend = Spend(
            id=f"sp_{agent}", agent=agent, task="reply", model="m", tokens_in=1, tokens_out=1, cost_micros=cost
        )
        await live.runtime.db.write(record_spend(spend))
    seen = (await bobs("GET", "/v1/spend")).json()
    costs = {one["agent"]: one["cost_micros"] for one in seen["lines"] if one["model"] == "m"}
    assert costs == {"bob": 20, "cy": 3}
    assert seen["total_micros"] == 23
    elsewhere, nowhere = await bobs("GET", "/v1/spend?agent=ada"), await bobs("GET", "/v1/spend?agent=eve")
    assert (elsewhere.status_code, elsewhere.json()) == (200, nowhere.json())
    assert elsewhere.json()["lines"] == []
