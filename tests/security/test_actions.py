"""Every privileged route and command leaves exactly one row of the audit trail that names who did it, to what and how
it ended; a refused attempt leaves one too. Only an admin without limits reads the trail."""

import hashlib
import json

import apsw
import pytest
import pytest_asyncio

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.api.routes.table import ENDPOINTS
from holdfast.cli.running import local_user
from holdfast.kernel.ids import TokenId
from tests.support.driver import confirmed
from tests.support.live import code_of, serve
from tests.support.processes import Up

MALLORY = "The canary sings at midnight"


def clone(db, table, **changed):
    """A copy of the first row, with other values."""
    names = [row[1] for row in db.execute(f"pragma table_info({table})").fetchall() if row[1] != "n"]
    cells = ", ".join(f":{name}" if name in changed else name for name in names)
    db.execute(f"insert into {table} ({', '.join(names)}) select {cells} from {table} limit 1", changed)


def furnish(file):
    """One thing for each act to be done to, put in beside the running process; the session that is there."""
    db = apsw.Connection(str(file))
    db.set_busy_timeout(10_000)
    ((session, box),) = db.execute("select id, mailbox from session").fetchall()
    ((address,),) = db.execute("select address from address").fetchall()
    with db:
        for code in ("7K2MPQ9X", "7K2MPQ9Y"):
            db.execute(
                "insert into pairing values (?, 'main', 'telegram', ?, 'Bob', ?, ?, 0, null, null)",
                (code, f"telegram:{code}", address, 10**15),
            )
        for approval in ("K7M2QX", "K7M2QY"):
            db.execute(
                "insert into approval (id, session, turn, call, tool, mailbox, principal, approvers, yields, asked_at,"
                " due_at) values (?, ?, 1, 'c1', 'pay', ?, 'ada', '', 0, 0, ?)",
                (approval, session, box, 10**15),
            )
        db.execute("update reply set state = 'failed'")
        db.execute(
            """insert into delivery (id, agent, provider, place, stream, from_seq, through_seq, from_turn, through_turn,
                                     op, principal, state, due_at, at)
               values (?, 'main', 'mem', 'p', ?, 1, 2, 1, 1, 'retain', 'ada', 'parked', 0, 0)""",
            (f"mem:{session}:1", session),
        )
        db.execute(
            """insert into finalisation (id, session, epoch, cause, from_seq, through_seq, said_at, step, due_at,
                                         started_at, ended_at)
               values (?, ?, 9, 'idle', 1, 2, 0, 'failed', 0, 0, 1)""",
            (f"finish:{session}:9", session),
        )
        db.execute("insert into login values ('log_1', x'01', 'operator', x'', 0, 0, ?, null, null)", (10**15,))
        ((reply,),) = db.execute("select id from reply").fetchall()
        for n, what in enumerate(("replay", "drop", "settle"), start=11):
            doubtful = {"provider": "mem", "state": "parked", "uncertain_at": 1, "from_seq": n, "from_turn": n}
            clone(db, "delivery", id=f"mem:{session}:{n}", through_turn=n, **doubtful)
            clone(db, "reply", id=f"rep_{what}", state="uncertain", reason="no answer")
        clone(db, "mailbox", id="box_waiting", session_id=None, depth=1, ready_at=None)
        waiting = {"message": "msg_waiting", "event_id": "waiting", "mailbox": "box_waiting", "state": "waiting"}
        clone(db, "inbound", session=None, turn=None, **waiting)
    db.close()
    return session, reply


# --- HTTP -------------------------------------------------------------------------------------------

# Routes that change something and are no privileged act, with the reason.
ORDINARY = {
    "/v1/messages": "speaks; a command in it that decides or loses something has a row of its own",
    "/v1/chat/completions": "speaks",
    "/v1/responses": "speaks",
    "/v1/sessions/{session}/compress": "loses nothing and decides nothing; it has an operation",
    "/v1/hooks/{agent}/{channel}": "brings what a platform says, signed by the platform",
}
CHANGING = {one.path: one for one in ENDPOINTS if one.method not in {"GET", "HEAD"}}
PRIVILEGED = {path: one.act for path, one in CHANGING.items() if one.act is not None}


def test_every_route_that_changes_something_is_privileged_or_says_why_not():
    assert set(CHANGING) == set(PRIVILEGED) | set(ORDINARY)
    assert set(PRIVILEGED) & set(ORDINARY) == set()


def requests(session, reply):
    """One request for each privileged route: where to, with what, and the verb and subject of its row."""
    return {
        "/v1/pairs/{code}": ("/v1/pairs/7K2M-PQ9X", {"decision": "admit"}, "access.admitted", "telegram:7K2MPQ9X"),
        "/v1/unpair": ("/v1/unpair", {"principal": "telegram:7K2MPQ9X"}, "access.withdrawn", "telegram:7K2MPQ9X"),
        "/v1/links": ("/v1/links", {"principal": "telegram:1", "person": "ada"}, "identity.linked", "telegram:1"),
        "/v1/unlink": ("/v1/unlink", {"principal": "telegram:1"}, "identity.unlinked", "telegram:1"),
        "/v1/addresses/move": (
            "/v1/addresses/move",
            {"old": "agent:main:http:dm:hello", "new": "agent:main:http:dm:new"},
            "address.moved",
            "agent:main:http:dm:new",
        ),
        "/v1/approvals/{approval}": ("/v1/approvals/K7M2QX", {"decision": "approve"}, "approval.decided", "K7M2QX"),
        "/v1/finalisations/{finalisation}/retry": (
            f"/v1/finalisations/finish:{session}:9/retry",
            None,
            "finalisation.retried",
            f"finish:{session}:9",
        ),
        "/v1/replies/{reply}/resend": (f"/v1/replies/{reply}/resend", None, "reply.resent", reply),
        "/v1/deliveries/{delivery}/replay": (
            f"/v1/deliveries/mem:{session}:1/replay",
            None,
            "delivery.replayed",
            f"mem:{session}:1",
        ),
        **{
            path: (path, {"ids": [ident]}, verb, ident)
            for path, ident, verb in (
                ("/v1/deliveries/replay", f"mem:{session}:11", "delivery.replayed"),
                ("/v1/deliveries/drop", f"mem:{session}:12", "delivery.dropped"),
                ("/v1/deliveries/settle", f"mem:{session}:13", "delivery.settled"),
                ("/v1/replies/resend", "rep_replay", "reply.resent"),
                ("/v1/replies/drop", "rep_drop", "reply.dropped"),
                ("/v1/replies/settle", "rep_settle", "reply.settled"),
                ("/v1/messages/drop", "msg_waiting", "message.dropped"),
            )
        },
        "/v1/agents/{agent}/pause": ("/v1/agents/main/pause", None, "agent.paused", "main"),
        "/v1/agents/{agent}/resume": ("/v1/agents/main/resume", None, "agent.resumed", "main"),
        "/v1/forget": ("/v1/forget", {"person": "ada", "id": "forget_1"}, "person.forgotten", "ada"),
        "/v1/login": ("/v1/login", {"token": spell_token(1)}, "login", "tok_admin"),
        "/v1/logout": ("/v1/logout", None, "logout", "tok_admin"),
    }


@pytest_asyncio.fixture
async def live(tmp_path):
    async with serve(tmp_path / "data") as running:
        await running.talk(MALLORY, sender="ada")
        for n, scope in ((1, Scope.ADMIN), (2, Scope.READ)):
            token = AccessToken(id=TokenId(f"tok_{scope.value}"), label=f"the {scope.value}", scopes=frozenset({scope}))
            await running.runtime.db.write(add_token(token, hash_token(spell_token(n))))
        running.side = furnish(tmp_path / "data" / "holdfast.db")
        yield running


async def trail(live, **query):
    """Oldest first."""
    response = await live.get("/v1/actions", **query)
    assert response.status_code == 200, response.text
    return response.json()["actions"][::-1]


def bearer(n):
    return {"Authorization": f"Bearer {spell_token(n)}", "User-Agent": "a-robot/1.0"}


async def test_every_privileged_route_leaves_one_row_that_names_the_token(live):
    wanted = requests(*live.side)
    assert set(wanted) == set(PRIVILEGED), "a route without a request here"
    before = len(await trail(live))
    cookie = ""
    for path, (where, body, verb, subject) in wanted.items():
        headers = bearer(1)
        if path == "/v1/logout":  # a browser logs out with its cookie
            headers = {"Authorization": "", "User-Agent": "a-robot/1.0", "Origin": live.url, "Cookie": cookie}
            me = await live.client.get("/v1/me", headers=headers)
            headers["X-Holdfast-CSRF"] = me.json()["csrf"]
        response = await live.client.post(where, headers=headers, json=body)
        assert response.status_code in {200, 202}, (path, response.text)
        cookie = "; ".join(f"{name}={value}" for name, value in response.cookies.items()) or cookie
        live.client.cookies.clear()
        (row,) = (await trail(live))[before:]
        before += 1
        assert (row["verb"], row["subject"], row["outcome"]) == (verb, subject, "done"), path
        assert (row["actor"]["kind"], row["actor"]["id"], row["actor"]["label"]) == ("token", "tok_admin", "the admin")
        assert row["actor"]["origin"].startswith("http 127.0.0.1 a-robot/1.0"), path
    assert MALLORY not in json.dumps(await trail(live))


async def test_a_repeated_request_adds_no_row(live):
    where, body = "/v1/forget", {"person": "ada", "id": "forget_1"}
    for _ in range(2):
        await live.client.post(where, headers=bearer(1), json=body)
        await live.client.post("/v1/links", headers=bearer(1), json={"principal": "telegram:1", "person": "ada"})
        await live.client.post("/v1/approvals/K7M2QX", headers=bearer(1), json={"decision": "deny"})
    verbs = [row["verb"] for row in await trail(live, actor="tok_admin")]
    assert verbs == ["person.forgotten", "identity.linked", "approval.decided"]


async def test_the_operators_own_token_is_named_as_the_operator(live):
    await live.post("/v1/links", {"principal": "telegram:1", "person": "ada"})
    assert (await trail(live))[-1]["actor"] | {"origin": ""} == {
        "kind": "operator",
        "id": "operator",
        "label": "",
        "origin": "",
    }


async def test_every_refused_attempt_names_who_tried_and_why_not(live):
    for path, (where, body, _, _) in requests(*live.side).items():
        if path in {"/v1/login", "/v1/logout"}:
            continue
        assert code_of(await live.client.post(where, headers=bearer(2), json=body)) == "scope_required"
        row = (await trail(live))[-1]
        told = (row["verb"], row["outcome"], row["code"], row["actor"]["id"])
        assert told == (PRIVILEGED[path].stored, "refused", "scope_required", "tok_read")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/pairs/ZZZZ-ZZZZ", {"decision": "admit"}, "pairing_not_found"),
        ("/v1/approvals/ZZZZZZ", {"decision": "approve"}, "approval_not_found"),
        ("/v1/forget", {"session": "nowhere"}, "session_not_found"),
        ("/v1/links", {"principal": "ada", "person": "ada"}, "invalid_input"),
    ],
)
async def test_what_cannot_be_done_is_on_record_as_refused(live, path, body, code):
    assert code_of(await live.client.post(path, headers=bearer(1), json=body)) == code
    row = (await trail(live))[-1]
    assert (row["outcome"], row["code"], row["actor"]["id"]) == ("refused", code, "tok_admin")


async def test_a_decision_that_comes_too_late_is_on_record_as_refused(live):
    await live.post("/v1/approvals/K7M2QX", {"decision": "approve"})
    assert (
        await live.client.post("/v1/approvals/K7M2QX", headers=bearer(1), json={"decision": "deny"})
    ).status_code == 409
    row = (await trail(live))[-1]
    assert (row["outcome"], row["code"], row["actor"]["id"]) == ("refused", "already_approved", "tok_admin")


async def test_a_failed_login_is_on_record_without_what_was_typed(live):
    wrong = "a-secret-that-somebody-guessed"
    response = await live.client.post("/v1/login", headers={"Authorization": ""}, json={"token": wrong})
    assert code_of(response) == "auth_required"
    row = (await trail(live))[-1]
    assert (row["verb"], row["outcome"], row["actor"]["kind"]) == ("login", "refused", "anonymous")
    assert wrong not in json.dumps(row)


async def test_commands_in_a_chat_name_the_sender_the_chat_and_the_token(live):
    await live.post("/v1/messages", {"chat": "hello", "id": "2", "text": "/approve K7M2QX", "sender": "ada"})
    await live.runtime.ask("other", "one", sender="bob")
    await live.runtime.ask("other", "/undo", sender="bob")
    await live.runtime.ask("other", "two", sender="bob")
    asked = await live.runtime.ask("other", "/delete", sender="bob")
    await live.runtime.ask("other", confirmed(asked), sender="bob")
    decided, undone, deleted = (await trail(live))[-3:]
    assert (decided["verb"], decided["subject"]) == ("approval.decided", "K7M2QX")
    assert (decided["actor"]["kind"], decided["actor"]["id"], decided["actor"]["label"]) == (
        "principal",
        "ada",
        "operator",
    )
    assert decided["actor"]["origin"].startswith("agent:main:http:dm:hello, http 127.0.0.1")
    assert (undone["verb"], deleted["verb"]) == ("session.undone", "session.deleted")
    assert undone["actor"] == deleted["actor"]
    assert (deleted["actor"]["id"], deleted["actor"]["origin"]) == ("bob", "agent:main:http:dm:other")


# --- who reads it -----------------------------------------------------------------------------------


async def test_only_an_admin_without_limits_reads_the_trail(live):
    assert code_of(await live.client.get("/v1/actions", headers=bearer(2))) == "scope_required"
    limited = AccessToken(id=TokenId("tok_limited"), scopes=frozenset(Scope), agents=frozenset({"main"}))
    await live.runtime.db.write(add_token(limited, hash_token(spell_token(3))))
    assert code_of(await live.client.get("/v1/actions", headers=bearer(3))) == "scope_required"
    assert (await live.client.get("/v1/actions", headers={"Authorization": ""})).status_code == 401
    assert (await live.client.get("/v1/actions", headers=bearer(1))).status_code == 200


async def test_the_trail_is_read_a_page_at_a_time_and_by_who_what_and_when(live):
    for n in range(5):
        await live.post("/v1/links", {"principal": f"telegram:1{n}", "person": "ada"})
    first = (await live.get("/v1/actions", limit=3)).json()
    assert [row["subject"] for row in first["actions"]] == ["telegram:14", "telegram:13", "telegram:12"]
    second = (await live.get("/v1/actions", limit=3, after=first["next"])).json()
    assert second["actions"][0]["subject"] == "telegram:11"
    assert [row["subject"] for row in await trail(live, verb="token.created")] == ["tok_admin", "tok_read"]
    assert len(await trail(live, subject="telegram:13", actor="operator")) == 1
    assert await trail(live, since=first["actions"][0]["at"] + 1) == []
    assert code_of(await live.get("/v1/actions", verb="nonsense")) == "invalid_input"
    assert code_of(await live.get("/v1/actions", since="yesterday")) == "invalid_input"


# --- a process that serves --------------------------------------------------------------------------


async def test_a_process_that_serves_with_other_settings_says_so(tmp_path):
    """Once for each change of the file, and not for a restart."""
    config = tmp_path / "holdfast.toml"
    for text in ("[agents.main]\n", "[agents.main]\n", "[agents.main]\n[agents.other]\n"):
        config.write_text(text, encoding="utf-8")
        up = await Up.start(tmp_path / "data", "--config", str(config))
        try:
            async with up.client() as client:
                found = (await client.get("/v1/actions", params={"verb": "config.changed"})).json()["actions"]
        finally:
            await up.stop()
    newest, oldest = found
    assert newest["subject"].startswith(f"sha256 {hashlib.sha256(config.read_bytes()).hexdigest()}, at 127.0.0.1")
    assert newest["subject"] != oldest["subject"]
    assert (newest["actor"]["kind"], newest["actor"]["id"]) == ("user", local_user().id)
