"""A token for some agents lists the things of those agents and nothing of another agent, on every list route.

Every route that needs no id has an answer in `LISTS`; a route that is added without one fails here. What the operator
is shown holds both agents' things, so that a list which is empty for another reason proves nothing.
"""

from hashlib import sha256
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, find_token
from holdfast.api.auth.viewer import Viewer
from holdfast.api.routes.table import ENDPOINTS
from holdfast.audit.actor import acting
from holdfast.inbox.access import PairingAsk
from holdfast.inbox.access_sql import ask_pairing
from holdfast.inbox.address import Address
from holdfast.inbox.channel_status import (
    ChannelStatus,
    ConnectionState,
    ToolServerStatus,
)
from holdfast.inbox.message import Arrival, Enclosure
from holdfast.kernel.errors import MessageNotFound, ScopeRequired, SessionNotFound
from holdfast.kernel.ids import AgentName, Instant, MailboxId, NodeId, Principal, ReplyId, TokenId
from holdfast.monitor.sample import Sample, SampleSpan
from holdfast.monitor.sample_sql import record_sample
from holdfast.turns.agent_pause_sql import pause_agent
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from holdfast.turns.spend_sql import Spend, record_spend
from tests.support.fakes import ScriptedModel, calls, happened, last_said, says, soon
from tests.support.live import code_of, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
OURS, THEIRS, NOBODY = AgentName("bob-xq"), AgentName("ada-xq"), AgentName("eve-xq")
GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})))
BOB = {"Authorization": f"Bearer {spell_token(11)}"}

OWN = "lists the token's own"
REFUSED = "concerns every agent"
NOTHING = "tells of no agent"
LISTS = {
    "/v1/models": OWN,
    "/v1/status": OWN,
    "/v1/messages": OWN,
    "/v1/samples": OWN,
    "/v1/pauses": OWN,
    "/v1/nodes": REFUSED,
    "/v1/sessions": OWN,
    "/v1/deliveries": OWN,
    "/v1/approvals": OWN,
    "/v1/replies": OWN,
    "/v1/spend": OWN,
    "/v1/channels": OWN,
    "/v1/tools": OWN,
    "/v1/pairs": OWN,
    "/v1/me": OWN,
    "/v1/operations": REFUSED,
    "/v1/finalisations": REFUSED,
    "/v1/links": REFUSED,
    "/v1/actions": REFUSED,
    "/metrics": REFUSED,
    "/v1/recall": NOTHING,  # without a question
    "/v1/conversation": NOTHING,  # without a chat
    "/healthz": NOTHING,
    "/readyz": NOTHING,
    "/": NOTHING,
}
QUESTIONS = {"/v1/recall": {"q": "tea"}, "/v1/conversation": {"chat": "c0"}}
ROUTES = [one for one in ENDPOINTS if one.method == "GET" and "{" not in one.path]
PAGED = ("/v1/messages", "/v1/sessions", "/v1/deliveries", "/v1/approvals", "/v1/replies")
"""Those that a page of one shows one of, however many of another agent's are newer and older."""


def answer(request):
    """Dangerous where it is asked to be; an echo elsewhere."""
    wanted = "danger" in last_said(request.messages) and not any(one.role == "tool" for one in request.messages)
    return (calls('memory {"action": "read"}') if wanted else says("hello"))(request)


class Wrapped:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Bots(Wrapped):
    """The channels, with a bot of each agent."""

    def statuses(self):
        return [
            ChannelStatus(
                agent=one, channel="telegram", state=ConnectionState.UP, since=Instant(1), reason="", attempts=0
            )
            for one in (THEIRS, OURS)
        ]


class Connected(Wrapped):
    """The service, with a bot and a tool server of each agent."""

    def __init__(self, runtime):
        super().__init__(runtime)
        self.channel_registry = Bots(runtime.channel_registry)

    def tool_servers(self):
        return [
            ToolServerStatus(
                agent=one,
                server="desk",
                state=ConnectionState.UP,
                since=Instant(1),
                reason="",
                attempts=0,
                restarts=0,
                tools=("look",),
            )
            for one in (THEIRS, OURS)
        ]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    listed = {str(agent): GUARDED for agent in (OURS, THEIRS)}
    model = ScriptedModel(otherwise=answer)
    folder = tmp_path_factory.mktemp("lists") / "data"
    async with serve(folder, model=model, listed=listed, wrap=Connected) as running:
        token = AccessToken(id=TokenId("bobs"), scopes=frozenset(Scope), agents=frozenset({OURS}))
        await running.runtime.db.write(add_token(token, hash_token(spell_token(11))))
        for n, agent in enumerate((THEIRS, OURS, THEIRS)):
            await plant(running.runtime, agent, n)
        for agent in (OURS, THEIRS):
            await running.runtime.db.write(pause_agent(agent, by=acting()))
        yield running


async def plant(runtime, agent, n):
    """One of everything that an agent can have."""
    await runtime.ask(f"c{n}", "hello", agent=agent)
    await runtime.ask(f"c{n}", "/new", agent=agent)
    feed = runtime.events()
    await runtime.send(f"danger{n}", "danger", agent=agent)
    await happened(feed, "turn.asked")
    feed.close()
    address = Address(agent=agent, channel="telegram", type="dm", chat=f"{n}")
    picture = f"of {agent} {n}".encode()
    enclosure = Enclosure(hash=sha256(picture).hexdigest(), name="p", media_type="image/png", body=picture)
    message = runtime.gateway.new_message()
    await runtime.gateway.accept(
        Arrival(
            address=address,
            event_id=f"e{n}",
            principal=Principal("telegram:8"),
            text="look",
            enclosures=(enclosure,),
            message=message,
        )
    )
    await soon(runtime.reply_to(message))
    await runtime.db.write(
        record_spend(
            Spend(id=f"sp_{n}", agent=agent, task="reply", model="m", tokens_in=1, tokens_out=1, cost_micros=1)
        )
    )
    minute = SampleSpan.MINUTE.start_of(runtime.clock.now())
    counts = {f"accepted/{agent}": 1, f"replies/delivered/{agent}/telegram": 1}
    await runtime.db.write(record_sample(NodeId(f"node_{n}"), Sample(span=SampleSpan.MINUTE, at=minute, counts=counts)))
    code = f"7K2MPQ9{'XYZ'[n]}"
    await runtime.db.write(
        ask_pairing(
            PairingAsk(
                agent=agent,
                channel="telegram",
                principal=Principal(f"telegram:9{n}"),
                address=str(Address(agent=agent, channel="telegram", type="dm", chat=f"9{n}")),
                code=code,
                reply=ReplyId(f"rep_{code}"),
                new_mailbox=MailboxId(f"box_{code}"),
            )
        )
    )


async def test_every_list_has_an_answer_here():
    assert {one.path for one in ROUTES} == set(LISTS)


async def marks_of(live, path, agent):
    """What shows that an answer tells of an agent: its name, and the ids of what is listed without it."""
    found = await live.runtime.deliveries(limit=1_000) if path == "/v1/deliveries" else []
    return {agent, *(one.id for one in found if one.agent == agent)}


@pytest.mark.parametrize("path", LISTS)
async def test_a_token_of_one_agent_lists_nothing_of_another(live, path):
    response = await live.client.get(path, headers=BOB)
    ours, theirs = [await marks_of(live, path, agent) for agent in (OURS, THEIRS)]
    assert not [mark for mark in theirs if mark in response.text]
    told = [mark for mark in ours if mark in response.text]
    if LISTS[path] == OWN:
        assert response.status_code == 200
        assert told
        everything = (await live.client.get(path)).text
        assert path == "/v1/me" or [mark for mark in theirs if mark in everything]
    else:
        assert not told
        refusal = response.status_code, code_of(response) if response.is_error else ""
        refused = {(403, "scope_required"), (400, "invalid_input")}
        assert (refusal in refused) == (LISTS[path] == REFUSED or path in QUESTIONS)


@pytest.mark.parametrize("path", [one.path for one in ROUTES if "agent" in one.query])
async def test_another_agent_by_its_name_is_one_that_is_not_there(live, path):
    question = QUESTIONS.get(path, {})
    answers = []
    for agent in (THEIRS, NOBODY):
        response = await live.client.get(path, headers=BOB, params={"agent": agent, **question})
        answers.append((response.status_code, response.text.replace(agent, "x")))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("rows_at_once", [1, 1_000])
@pytest.mark.parametrize("path", PAGED)
async def test_a_page_is_filled_with_the_tokens_own(live, monkeypatch, path, rows_at_once):
    monkeypatch.setattr("holdfast.api.auth.overview.PAGE", rows_at_once)
    listed = list_in(await live.client.get(path, headers=BOB))
    page = list_in(await live.client.get(path, headers=BOB, params={"limit": 1}))
    assert page == listed[:1]
    assert len(page) == 1


def list_in(response):
    (listed,) = [value for value in response.json().values() if isinstance(value, list)]
    return listed


async def test_pages_of_all_the_tokens_agents_are_one_list_newest_first(live):
    token = AccessToken(id=TokenId("both"), scopes=frozenset(Scope), agents=frozenset({OURS, THEIRS}))
    await live.runtime.db.write(add_token(token, hash_token(spell_token(12))))
    both = {"Authorization": f"Bearer {spell_token(12)}"}
    for path in ("/v1/sessions", "/v1/deliveries", "/v1/replies", "/v1/approvals", "/v1/pairs"):
        everything = list_in(await live.client.get(path))
        assert list_in(await live.client.get(path, headers=both)) == everything, path
        if path != "/v1/pairs":
            assert list_in(await live.client.get(path, headers=both, params={"limit": 2})) == everything[:2]


CURSORS = {
    "/v1/sessions": lambda page: list_in(page)[-1]["id"] if list_in(page) else None,
    "/v1/deliveries": lambda page: page.json()["next"],
    "/v1/replies": lambda page: page.json()["next"],
}
FILTERS = {"/v1/deliveries": {"state": "delivered"}, "/v1/replies": {"state": "pending", "channel": "telegram"}}


async def pages(live, headers, path, limit, **asked):
    """Everything that is listed, page by page; no more pages than there are things."""
    found: list[object] = []
    after: dict[str, str | int] = {}
    for _ in range(1_000):
        page = await live.client.get(path, headers=headers, params={**asked, **after, "limit": limit})
        assert page.status_code == 200
        assert len(list_in(page)) <= limit
        found += list_in(page)
        cursor = CURSORS[path](page)
        if cursor is None:
            return found
        after = {"after": cursor}
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("agents", [{OURS}, {OURS, THEIRS}], ids=["one agent", "both"])
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("path", CURSORS)
async def test_pages_of_a_limited_token_skip_nothing_and_repeat_nothing(live, path, limit, agents):
    number = 20 + len(agents)
    if await live.runtime.db.read(find_token(hash_token(spell_token(number)))) is None:
        token = AccessToken(id=TokenId(f"pages{number}"), scopes=frozenset(Scope), agents=frozenset(agents))
        await live.runtime.db.write(add_token(token, hash_token(spell_token(number))))
    headers = {"Authorization": f"Bearer {spell_token(number)}"}
    whole = list_in(await live.client.get(path, headers=headers, params={"limit": 1_000}))
    assert len(whole) > 1
    assert await pages(live, headers, path, limit) == whole
    if path in FILTERS:
        key, wanted = next(iter(FILTERS[path].items()))
        some = [one for one in whole if one[key] == wanted]
        assert some
        assert await pages(live, headers, path, limit, **FILTERS[path]) == some
        assert await pages(live, headers, path, limit, **{key: "uncertain"}) == []


async def test_another_agents_session_is_no_place_to_read_on_from(live):
    """Told apart from one that is not there, it would be known to exist, and when it began."""
    theirs = (await live.runtime.sessions(agent=THEIRS))[0].id
    answers = []
    for after in (theirs, "ses_nowhere"):
        response = await live.client.get("/v1/sessions", headers=BOB, params={"after": after})
        answers.append((response.status_code, response.text.replace(after, "x")))
    assert answers[0] == answers[1]
    assert (response.status_code, code_of(response)) == (404, "session_not_found")


async def test_sessions_of_several_agents_are_one_list_by_age_and_not_by_id():
    """Writers without a mailbox bring ids of their own."""
    begun = {OURS: [("aa", 4), ("zz", 1)], THEIRS: [("mm", 3), ("bb", 2)]}

    async def sessions(*, agent, **_):
        return [SimpleNamespace(id=id_, opened_at=at, address=None) for id_, at in begun[agent]]

    token = AccessToken(id=TokenId("both"), scopes=frozenset(Scope), agents=frozenset(begun))
    viewer = Viewer(cast("Any", SimpleNamespace(sessions=sessions)), token)
    assert [one.id for one in await viewer.sessions(limit=3)] == ["aa", "mm", "bb"]


# --- what no route asks for today --------------------------------------------------------------------


async def test_what_is_forgotten_by_all_agents_is_not_for_a_token_of_one(live):
    await live.runtime.forget(person="nobody", id="forget-of-all")
    response = await live.client.get("/v1/forget/forget-of-all", headers=BOB)
    nowhere = await live.client.get("/v1/forget/forget-of-xyz", headers=BOB)
    assert (response.status_code, response.text.replace("forget-of-all", "x")) == (
        404,
        nowhere.text.replace("forget-of-xyz", "x"),
    )


async def test_the_viewer_of_a_token_keeps_to_its_agents_by_itself(live):
    """Each query is limited by itself, independent of what a route reads first."""
    token = AccessToken(id=TokenId("bobs"), scopes=frozenset(Scope), agents=frozenset({OURS}))
    viewer = Viewer(live.runtime, token)
    ours, theirs = [sha256(f"of {agent} {n}".encode()).hexdigest() for agent, n in ((OURS, 1), (THEIRS, 0))]
    assert await viewer.attachment(ours) is not None
    assert await viewer.attachment(theirs) is None
    session = (await live.runtime.sessions(agent=THEIRS))[0].id
    with pytest.raises(SessionNotFound):
        await viewer.prompt(session)
    said = await live.runtime.send("elsewhere", "hello", agent=THEIRS)
    for question in (viewer.message, viewer.trace):
        with pytest.raises(MessageNotFound):
            await question(said)
    for closed in (viewer.listen, lambda: viewer.whole("gauges")):
        with pytest.raises(ScopeRequired):
            closed()
