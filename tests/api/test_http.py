"""The HTTP surface that people script against: every route, every field, every error, over a real socket.

Rules: R41.
"""

import re

import pytest
import pytest_asyncio
from starlette.routing import Route, Router

from holdfast.api import app, openapi
from holdfast.api.errors import PortInUse, PublicBindRefused
from holdfast.api.routes.table import ENDPOINTS
from holdfast.api.server import bind, url_of
from holdfast.inbox.message import Limits
from holdfast.kernel.errors import StoreBroken, StoreCorrupt, StoreFull, StoreUnavailable
from holdfast.kernel.ids import SessionId
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.history_sql import read_session
from holdfast.store.upkeep_sql import prove_write
from holdfast.turns.policy import AgentPolicy
from tests.support.driver import confirmed
from tests.support.live import GatedModel, code_of, serve
from tests.support.ports import replace_verb

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def live(tmp_path_factory):
    async with serve(tmp_path_factory.mktemp("http") / "data") as running:
        yield running


# --- health ----------------------------------------------------------------------------------------


async def test_health_is_a_write_that_just_succeeded(live):
    response = await live.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"ok": True, "proved_write_ms": response.json()["proved_write_ms"]}
    assert isinstance(response.json()["proved_write_ms"], int)


async def test_health_turns_503_while_the_store_cannot_write(tmp_path, monkeypatch):
    async with serve(tmp_path) as live:

        async def full():
            raise StoreFull("no space is left")

        replace_verb(monkeypatch, live.runtime.db, prove_write, full)
        response = await live.get("/healthz")
        assert response.status_code == 503
        assert response.json() == {"ok": False, "proved_write_ms": None, "code": "store_full"}, "and nothing else"
        ready = (await live.get("/readyz")).json()
        assert (ready["code"], ready["message"]) == ("store_full", "no space is left")


# --- messages --------------------------------------------------------------------------------------


async def test_a_message_is_accepted_once_and_its_repeat_is_a_duplicate(live):
    first = await live.say("My cat is called Byron.", chat="once")
    assert first.status_code == 202
    assert first.json() == {"status": "accepted", "message": first.json()["message"], "queued_behind": 0}
    again = await live.say("My cat is called Byron.", chat="once")
    assert again.status_code == 200
    assert again.json()["status"] == "duplicate"
    assert again.json()["message"] == first.json()["message"]


async def test_an_id_belongs_to_its_agent_and_chat(live):
    answers = [
        await live.say("hello", chat="a", id="same"),
        await live.say("hello", chat="b", id="same"),
        await live.say("hello", chat="a", id="same", agent="other"),
    ]
    assert [answer.status_code for answer in answers] == [202, 202, 202]


async def test_the_same_id_with_another_text_is_a_conflict(live):
    await live.say("one", chat="conflict")
    response = await live.say("two", chat="conflict")
    assert response.status_code == 409
    assert code_of(response) == "idempotency_conflict"


async def test_a_message_can_be_followed_to_its_reply(live):
    accepted = (await live.say("My dog is called Ada.", chat="trace", id="t1", sender="ann")).json()
    await live.runtime.reply_to(accepted["message"])
    trace = (await live.get(f"/v1/messages/{accepted['message']}")).json()
    assert trace["message"] == accepted["message"]
    assert (trace["agent"], trace["chat"], trace["id"], trace["sender"]) == ("main", "trace", "t1", "ann")
    assert trace["state"] == "answered"
    assert (trace["reply"]["text"], trace["reply"]["state"]) == ("Noted: My dog is called Ada.", "delivered")
    (session,) = (await live.get("/v1/sessions", chat="trace")).json()["sessions"]
    assert (trace["session"], trace["turn"]) == (session["id"], 1)
    (delivery,) = trace["deliveries"]
    assert delivery["provider"] == "local"
    assert {"id", "provider", "state", "attempt", "receipt", "reason"} <= set(delivery)


async def test_what_waits_says_how_many_are_before_it(tmp_path):
    model = GatedModel()
    async with serve(tmp_path, model=model) as live:
        first = (await live.say("one", id="1")).json()
        await model.asked.wait()
        second = (await live.say("two", id="2")).json()
        assert (first["queued_behind"], second["queued_behind"]) == (0, 1)
        trace = (await live.get(f"/v1/messages/{second['message']}")).json()
        assert (trace["state"], trace["queued_behind"], trace["reply"]) == ("waiting", 1, None)
        assert (await live.get(f"/v1/messages/{first['message']}")).json()["state"] == "in_turn"
        model.gate.set()
        await live.runtime.reply_to(second["message"])


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        (b"", "invalid_json", "body"),
        (b"{", "invalid_json", "body"),
        (b"\xef\xbb\xbf{}", "invalid_json", "body"),
        (b"[]", "invalid_input", "array"),
        (b'{"id": "1", "text": "x"}', "invalid_input", "chat"),
        (b'{"chat": "c", "text": "x"}', "invalid_input", "id"),
        (b'{"chat": "c", "id": "1"}', "invalid_input", "text"),
        (b'{"chat": "c", "id": 1, "text": "x"}', "invalid_input", "$.id"),
        (b'{"chat": "c", "id": "1", "text": null}', "invalid_input", "$.text"),
        (b'{"chat": "c", "id": "1", "text": "x", "txet": "y"}', "invalid_input", "txet"),
        (b'{"chat": "c", "id": "1", "text": ""}', "empty_message", "visible"),
        (b'{"chat": "c", "id": "1", "text": "\\u0000 \\n"}', "empty_message", "visible"),
        (b'{"chat": "", "id": "1", "text": "x"}', "invalid_name", "chat"),
        (b'{"chat": "c", "id": "", "text": "x"}', "invalid_name", "id"),
        (b'{"chat": "c\\u0000", "id": "1", "text": "x"}', "invalid_name", "chat"),
        (b'{"agent": "no spaces", "chat": "c", "id": "1", "text": "x"}', "invalid_name", "agent"),
        (b'{"agent": "' + b"a" * 65 + b'", "chat": "c", "id": "1", "text": "x"}', "invalid_name", "agent"),
        (b"[" * 200_000, "invalid_input", "array"),
        (b'{"chat": ' + b"[" * 200_000, "invalid_input", "$.chat"),
    ],
)
async def test_a_body_that_cannot_be_meant_is_refused_with_the_field(live, body, code, named):
    response = await live.client.post("/v1/messages", content=body)
    assert response.status_code == 400
    assert code_of(response) == code
    assert named in response.json()["error"]["message"]


async def test_nul_inside_a_text_is_kept(live):
    accepted = (await live.say("a\0b", chat="nul")).json()
    await live.runtime.reply_to(accepted["message"])
    session = (await live.get("/v1/sessions", chat="nul")).json()["sessions"][0]["id"]
    assert (await live.get(f"/v1/sessions/{session}/entries")).json()["entries"][0]["text"] == "a\0b"


async def test_limits_refuse_before_anything_is_acknowledged(tmp_path):
    model = GatedModel()
    limits = Limits(message_bytes_max=64, mailbox_depth_max=2, window_messages_max=4)
    async with serve(tmp_path, model=model, policy=AgentPolicy(limits=limits)) as live:
        too_large = await live.say("x" * 65)
        assert (too_large.status_code, code_of(too_large)) == (413, "message_too_large")
        await live.say("one", id="1")
        second = (await live.say("two", id="2")).json()
        full = await live.say("three", id="3")
        assert (full.status_code, code_of(full)) == (429, "mailbox_full")
        assert int(full.headers["retry-after"]) >= 1
        model.gate.set()
        await live.runtime.reply_to(second["message"])
        for n, text in (("4", "four"), ("5", "five")):
            await live.runtime.reply_to((await live.say(text, id=n)).json()["message"])
        often = await live.say("six", id="6")
        assert (often.status_code, code_of(often)) == (429, "rate_limited")
        assert 1 <= int(often.headers["retry-after"]) <= 60


async def test_an_agent_that_is_not_configured_is_not_found(tmp_path):
    async with serve(tmp_path, listed={"ada": AgentPolicy()}) as live:
        response = await live.say("hello", agent="bob")
        assert (response.status_code, code_of(response)) == (404, "agent_not_found")
        assert (await live.say("hello", agent="ada")).status_code == 202


async def test_without_an_agent_main_or_the_first_that_is_configured_is_meant_everywhere(tmp_path):
    async with serve(tmp_path, listed={"zoe": AgentPolicy(), "ada": AgentPolicy()}) as live:
        await live.talk("My cat is called Byron.", chat="u")
        sent = (await live.say("hello", chat="u", id="2")).json()
        assert (await live.runtime.trace(sent["message"])).agent == "zoe"
        found = (await live.get("/v1/sessions", chat="u")).json()["sessions"]
        assert [one["agent"] for one in found] == ["zoe"]
        assert (await live.get("/v1/recall", q="cat")).status_code == 200
        asked = {"messages": [{"role": "user", "content": "hello"}], "user": "u"}
        assert (await live.post("/v1/chat/completions", asked)).json()["model"] == "zoe"
        first = (await live.post("/v1/responses", {"input": "hello"})).json()
        assert first["model"] == "zoe"
        again = {"input": "again", "previous_response_id": first["id"]}
        assert (await live.post("/v1/responses", again)).json()["model"] == "zoe"


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (StoreFull("no space is left"), 503, "store_full"),
        (StoreUnavailable("locked"), 503, "store_unavailable"),
        (StoreBroken("unknown outcome"), 503, "store_broken"),
        (StoreCorrupt("a page is damaged"), 503, "store_corrupt"),
        (ValueError("people's own words"), 500, "internal_error"),
    ],
)
async def test_a_fault_of_the_store_is_told_and_nothing_is_acknowledged(live, monkeypatch, fault, status, code):
    async def failing(*_args, **_kwargs):
        raise fault

    monkeypatch.setattr(live.runtime, "accept", failing)
    response = await live.say("hello", chat="faults")
    assert (response.status_code, code_of(response)) == (status, code)
    assert "own words" not in response.text
    assert "Traceback" not in response.text


# --- sessions --------------------------------------------------------------------------------------


async def test_sessions_are_listed_newest_first_with_their_lineage(live):
    old = await live.talk("My cat is called Byron.", chat="lineage")
    new = await live.talk("/branch tea", "I like tea.", chat="lineage")
    listed = (await live.get("/v1/sessions", agent="main", chat="lineage")).json()["sessions"]
    assert [one["id"] for one in listed] == [new, old]
    assert {"id", "title", "state", "live", "parent", "opened_at", "summaries"} <= set(listed[0])
    assert [(one["title"], one["live"], one["parent"]) for one in listed] == [("tea", True, old), (None, False, None)]
    known = [await live.runtime.db.read(read_session(one["id"])) for one in listed]
    assert [(one["state"], one["opened_at"]) for one in listed] == [(one.state.value, one.opened_at) for one in known]
    assert all(one["opened_at"] > 1_700_000_000_000 for one in listed)
    page = (await live.get("/v1/sessions", chat="lineage", limit=1)).json()["sessions"]
    rest = (await live.get("/v1/sessions", chat="lineage", after=page[0]["id"])).json()["sessions"]
    assert [one["id"] for one in page + rest] == [new, old]
    assert (await live.get("/v1/sessions", chat="nobody")).json() == {"sessions": []}


async def test_entries_come_in_pages_with_the_senders_id(live):
    said = await live.say("My cat is called Byron.", chat="pages", id="p1", sender="pam")
    await live.runtime.reply_to(said.json()["message"])
    session = await live.talk("I like tea.", "/undo", "I like cake.", chat="pages", sender="pam")
    entries = (await live.get(f"/v1/sessions/{session}/entries")).json()["entries"]
    assert [one["seq"] for one in entries] == list(range(1, len(entries) + 1))
    # Whether memory has something by then depends on the dispatcher.
    assert [(one["kind"], one["undone"]) for one in entries if one["kind"] != "recall"] == [
        ("user", False),
        ("assistant", False),
        ("user", True),
        ("assistant", True),
        ("undo", False),
        ("user", False),
        ("assistant", False),
    ]
    assert [one["turn"] for one in entries if one["kind"] == "user"] == [1, 2, 3]
    assert entries[0]["message_id"] == "p1"
    assert entries[1]["message_id"] is None
    page = (await live.get(f"/v1/sessions/{session}/entries", after=2, limit=3)).json()["entries"]
    assert page == entries[2:5]


async def test_the_limit_of_a_page_is_capped(live):
    session = await live.talk("hello", chat="cap")
    response = await live.get(f"/v1/sessions/{session}/entries", limit=10**12)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "query",
    [{"after": "x"}, {"after": "-1"}, {"limit": "1.5"}, {"after": "9" * 30}, {"limit": "\uff11"}, {"aftr": "1"}],
)
async def test_a_query_that_cannot_be_meant_is_refused(live, query):
    session = await live.talk("hello", chat="cap")
    response = await live.get(f"/v1/sessions/{session}/entries", **query)
    assert (response.status_code, code_of(response)) == (400, "invalid_input")


async def test_a_repeated_parameter_is_refused(live):
    response = await live.client.get("/v1/sessions?chat=a&chat=b")
    assert (response.status_code, code_of(response)) == (400, "invalid_input")


async def test_the_context_is_what_the_model_would_be_sent(tmp_path):
    async with serve(tmp_path, policy=AgentPolicy(instructions="Be brief.")) as live:
        session = await live.talk("My cat is called Byron.", "I like tea.")
        operation = (await live.post(f"/v1/sessions/{session}/compress")).json()["operation"]
        await operation_ended(live, session, operation)
        context = (await live.get(f"/v1/sessions/{session}/context")).json()
        assert [one["role"] for one in context["messages"]] == ["system", "user", "user", "assistant"]
        assert context["messages"][0]["content"] == "Be brief."
        assert "Byron" in context["messages"][1]["content"]
        assert all(set(one) == {"role", "content"} for one in context["messages"])
        assert context["covers_through"] == 2
        assert context["tokens"] == (await live.runtime.prompt(SessionId(session))).tokens > 10


async def test_an_open_turn_is_not_part_of_the_context(tmp_path):
    model = GatedModel()
    model.gate.set()
    async with serve(tmp_path, model=model) as live:
        session = await live.talk("one")
        model.gate.clear()
        model.asked.clear()
        sent = (await live.say("two", id="2")).json()
        await model.asked.wait()
        context = (await live.get(f"/v1/sessions/{session}/context")).json()
        assert [one["role"] for one in context["messages"]] == ["user", "assistant"]
        model.gate.set()
        await live.runtime.reply_to(sent["message"])


# --- compression -----------------------------------------------------------------------------------


async def operation_ended(live, session, operation):
    """The operation once it has ended; the feed says when to look."""
    feed = live.runtime.events()
    try:
        while True:
            found = (await live.get("/v1/operations", session=session)).json()["operations"]
            one = next(each for each in found if each["id"] == operation)
            if one["ended_at"] is not None:
                return one
            await feed.next_within(1_000)
    finally:
        feed.close()


async def test_compression_runs_beside_the_mailbox_one_at_a_time(tmp_path):
    model = GatedModel()
    model.gate.set()
    async with serve(tmp_path, model=model) as live:
        session = await live.talk("My cat is called Byron.", "I like tea.")
        model.gate.clear()
        begun = await live.post(f"/v1/sessions/{session}/compress")
        assert begun.status_code == 202
        busy = await live.post(f"/v1/sessions/{session}/compress")
        assert (busy.status_code, code_of(busy)) == (409, "operation_busy")
        model.gate.set()
        ended = await operation_ended(live, session, begun.json()["operation"])
        assert (ended["kind"], ended["outcome"], ended["session"]) == ("compress", "done", session)
        assert [one["summaries"] for one in (await live.get("/v1/sessions")).json()["sessions"]] == [1]


async def test_a_snapshot_can_be_read_by_its_number(tmp_path):
    async with serve(tmp_path, policy=AgentPolicy(thresholds=Thresholds(context_tokens=1_000))) as live:
        session = await live.talk("My cat is called Byron.", "I like tea.")
        await operation_ended(live, session, (await live.post(f"/v1/sessions/{session}/compress")).json()["operation"])
        snapshot = (await live.get(f"/v1/sessions/{session}/snapshots/1")).json()
        assert snapshot["snapshot"] == f"{session}.snapshot.1"
        assert (snapshot["covers_from"], snapshot["covers_through"], snapshot["model"]) == (1, 2, "practice")
        assert [one["seq"] for one in snapshot["entries"]] == [1, 2]
        missing = await live.get(f"/v1/sessions/{session}/snapshots/2")
        assert (missing.status_code, code_of(missing)) == (404, "session_not_found")
        wrong = await live.get(f"/v1/sessions/{session}/snapshots/x")
        assert (wrong.status_code, code_of(wrong)) == (400, "invalid_input")


async def test_a_deleted_session_cannot_be_compressed_and_blocks_nothing(tmp_path):
    async with serve(tmp_path) as live:
        session = await live.talk("My cat is called Byron.")
        asked = await live.runtime.ask("hello", "/delete", sender="user")
        await live.runtime.ask("hello", confirmed(asked), sender="user")
        response = await live.post(f"/v1/sessions/{session}/compress")
        assert (response.status_code, code_of(response)) == (404, "session_not_found")
        assert (await live.get("/v1/operations", session=session)).json() == {"operations": []}


# --- routes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/messages/msg_unknown", "message_not_found"),
        ("GET", "/v1/sessions/ses_unknown/entries", "session_not_found"),
        ("GET", "/v1/sessions/ses_unknown/context", "session_not_found"),
        ("GET", "/v1/sessions/ses_unknown/snapshots/1", "session_not_found"),
        ("POST", "/v1/sessions/ses_unknown/compress", "session_not_found"),
        ("GET", "/v1/messages/", "not_found"),
        ("GET", "/v1/sessions/", "not_found"),
        ("GET", "/docs", "not_found"),
    ],
)
async def test_what_is_not_there_is_not_found(live, method, path, code):
    response = await live.client.request(method, path)
    assert (response.status_code, code_of(response)) == (404, code)


async def test_a_name_that_cannot_be_one_is_refused(live):
    response = await live.get("/v1/sessions/%00/entries")
    assert (response.status_code, code_of(response)) == (400, "invalid_name")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/messages"), ("PATCH", "/v1/messages"), ("PUT", "/healthz")]
)
async def test_another_method_is_not_allowed(live, method, path):
    response = await live.client.request(method, path)
    assert (response.status_code, code_of(response)) == (405, "method_not_allowed")
    assert response.headers["allow"]


async def test_the_document_lists_every_route(live):
    document = (await live.get("/openapi.json")).json()
    router = live.app._router
    assert isinstance(router, Router)
    routes = [route for route in router.routes if isinstance(route, Route)]
    served = {(route.path, method) for route in routes for method in (route.methods or set()) - {"HEAD"}}
    described = {(path, method.upper()) for path, one in document["paths"].items() for method in one}
    assert described == served
    assert len(served) == len(ENDPOINTS) + 1


async def test_the_document_is_made_at_its_first_request_and_once(tmp_path, monkeypatch):
    """Making it takes longer than the rest of the server's start."""
    made: list[dict[str, int]] = []

    def make(_endpoints: object, _version: str) -> dict[str, int]:
        made.append({"made": len(made) + 1})
        return made[-1]

    monkeypatch.setattr(openapi, "document", make)
    app._document.cache_clear()
    try:
        async with serve(tmp_path / "data") as running:
            assert made == []
            assert [(await running.get("/openapi.json")).json() for _ in range(2)] == [{"made": 1}, {"made": 1}]
    finally:
        app._document.cache_clear()


async def test_the_document_is_whole(live):
    """Every reference leads somewhere, and every path parameter is described."""
    response = await live.get("/openapi.json")
    document = response.json()
    for name in re.findall(r'"#/components/schemas/(\w+)"', response.text):
        assert name in document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for one in methods.values():
            described = {each["name"] for each in one.get("parameters", []) if each["in"] == "path"}
            assert described == set(re.findall(r"{(\w+)}", path))
            assert set(one["responses"]) >= {"200"} or set(one["responses"]) >= {"202"}


# --- the socket ------------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_said():
    with bind("127.0.0.1", 0) as taken, pytest.raises(PortInUse, match="is in use"):
        bind("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.com", "", "127.0.0.1.example.com"])
async def test_only_loopback_is_bound(host):
    with pytest.raises(PublicBindRefused):
        bind(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.8.9.10"])
async def test_loopback_is_bound(host):
    with bind(host, 0) as listening:
        assert url_of(listening).startswith("http://127.")
