"""The promise: `replay`, `resend`, `drop` and `settle` show what they would do, ask once, and do exactly that, on the
command line and over HTTP; a request that means nothing in particular is refused."""

import asyncio
import json
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.cli import command as asking
from holdfast.cli.commands import app
from holdfast.kernel.ids import TokenId
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.security.test_actions import furnish
from tests.support.live import code_of, serve

MANY = 25


@pytest.fixture
def ids(tmp_path):
    """The session of a folder with a parked delivery of each kind, uncertain replies and a waiting message."""

    async def talk():
        agents = make_agents(policy=AgentPolicy(memory={}))
        async with await open_runtime(tmp_path, agents=agents) as runtime:
            await runtime.ask("hello", "hi", sender="ada")

    asyncio.run(talk())
    return furnish(tmp_path / "holdfast.db")[0]


@pytest.fixture
def holdfast(tmp_path, ids):
    def invoke(*arguments, exit_code=0, **how):
        done = CliRunner().invoke(app, [*arguments, "--data", str(tmp_path)], prog_name="holdfast", **how)
        assert done.exit_code == exit_code, done.output
        return done.stdout

    run: Any = invoke
    run.db = apsw.Connection(str(tmp_path / "holdfast.db"))
    yield run
    run.db.close()


def states(run, table, key="id"):
    return dict(run.db.execute(f"select {key}, state from {table} order by 1").fetchall())


def test_a_dry_run_prints_what_would_happen_and_changes_nothing(holdfast, ids):
    before = states(holdfast, "delivery")
    told = holdfast("replay", "--provider", "mem", "--dry-run")
    assert told.splitlines()[0] == (
        "4 deliveries would be changed (3 mem is asked whether it has it, and sent it if not; 1 sent to mem again)."
    )
    assert all(f"mem:{ids}:{n}" in told for n in (1, 11, 12, 13))
    found = json.loads(holdfast("replay", "--provider", "mem", "--dry-run", "--json"))
    assert (found["act"], found["what"], found["dry_run"], found["count"], found["left"]) == (
        *("replay", "delivery", True),
        *(4, 0),
    )
    assert {one["effect"] for one in found["items"]} == {
        "sent to mem again",
        "mem is asked whether it has it, and sent it if not",
    }
    assert states(holdfast, "delivery") == before


def test_several_are_asked_about_once_and_yes_skips_the_question(holdfast, monkeypatch):
    before = states(holdfast, "delivery")
    holdfast("replay", "--provider", "mem", exit_code=2)
    monkeypatch.setattr(asking, "_can_ask", lambda: True)
    assert "Nothing was changed." in holdfast("replay", "--provider", "mem", input="n\n", exit_code=1)
    assert states(holdfast, "delivery") == before
    told = holdfast("replay", "--provider", "mem", input="y\n")
    assert "4 deliveries put back; a running `holdfast up` delivers them." in told
    monkeypatch.setattr(asking, "_can_ask", lambda: False)
    assert "none: no deliveries match" in holdfast("replay", "--provider", "mem", "--yes")


def test_one_id_is_replayed_and_resent_without_a_question_as_before(holdfast, ids):
    assert holdfast("replay", f"mem:{ids}:1").startswith(f"mem:{ids}:1 is scheduled")
    assert json.loads(holdfast("resend", "rep_drop", "--json"))["state"] == "pending"
    assert "error[delivery_not_found]" in CliRunner().invoke(app, ["replay", "mem:x:1", *data(holdfast)]).output


def data(run):
    return ["--data", run.db.filename.rpartition("/")[0]]


def test_what_is_left_as_it_is_and_what_is_unknown_is_named_with_the_reason(holdfast, ids):
    found = json.loads(
        holdfast("settle", f"mem:{ids}:1", f"mem:{ids}:13", "mem:ses_x:1", "--arrived", "--yes", "--json", exit_code=1)
    )
    assert (found["count"], found["left"], found["unknown"]) == (1, 1, ["mem:ses_x:1"])
    assert {one["id"]: one["obstacle"] for one in found["items"]} == {
        f"mem:{ids}:1": "mem did not take it, so it cannot have arrived",
        f"mem:{ids}:13": "",
    }
    shown = json.loads(holdfast("deliveries", "--provider", "mem", "--json"))["deliveries"]
    (settled,) = [one for one in shown if one["id"] == f"mem:{ids}:13"]
    assert (settled["state"], settled["receipt"]) == ("delivered", f"said to have arrived by {settled['decided_by']}")
    assert "said to have arrived by" in holdfast("deliveries", "--provider", "mem")


def test_what_was_given_up_says_so_in_the_lists(holdfast, ids):
    holdfast("drop", "rep_drop", "--yes")
    holdfast("drop", "--what", "delivery", "--provider", "mem", "--yes")
    assert "given up by" in holdfast("replies", "--state", "uncertain")
    assert "parked (given up by" in holdfast("deliveries", "--provider", "mem")
    holdfast("drop", "msg_waiting", "--yes")
    assert states(holdfast, "inbound", "message")["msg_waiting"] == "interrupted"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["replay"], "name ids or a filter"),
        (["replay", "a:b:1", "--provider", "mem"], "exclude each other"),
        (["replay", "--older-than", "soon"], "use 30m"),
        (["drop", "--all"], "name one kind"),
        (["drop", "rep_1", "msg_1"], "name one kind"),
        (["drop", "--what", "reply", "--state", "delivered"], "drop takes replies that are"),
        (["settle", "rep_1"], "--arrived"),
        (["settle", "msg_1", "--arrived"], "settle does not apply to messages"),
    ],
)
def test_a_request_that_means_nothing_in_particular_is_refused(holdfast, words, why):
    done = CliRunner().invoke(app, [*words, *data(holdfast)], prog_name="holdfast")
    assert (done.exit_code, "error[invalid_input]" in done.output, why in done.output) == (1, True, True), done.output


def test_a_long_plan_is_cut_in_text_and_whole_in_json(holdfast, ids):
    with holdfast.db:
        for n in range(100, 100 + MANY):
            holdfast.db.execute(
                "insert into delivery (id, agent, provider, place, stream, from_seq, through_seq, from_turn,"
                " through_turn, op, principal, state, due_at, at)"
                " values (?, 'main', 'mem', 'p', ?, ?, ?, 1, 1, 'retain', 'ada', 'parked', 0, 0)",
                (f"mem:{ids}:{n}", ids, n, n),
            )
    assert f"... and {MANY + 4 - 20} more; --json lists all" in holdfast("replay", "--provider", "mem", "--dry-run")
    assert len(json.loads(holdfast("replay", "--all", "--dry-run", "--json"))["items"]) == MANY + 4
    assert "More match; repeat the command" in holdfast("replay", "--all", "--limit", "3", "--dry-run")


async def test_over_http_a_dry_run_is_the_plan_and_a_limited_token_sees_its_agents_only(tmp_path):
    async with serve(tmp_path / "data", policy=AgentPolicy(memory={})) as live:
        await live.talk("hi", sender="ada")
        furnish(tmp_path / "data" / "holdfast.db")
        asked = {"name": "mem", "dry_run": True}
        plan = (await live.post("/v1/deliveries/drop", asked)).json()
        assert (plan["dry_run"], plan["count"], len(plan["items"])) == (True, 4, 4)
        done = (await live.post("/v1/deliveries/drop", {"name": "mem"})).json()
        assert (done["dry_run"], done["count"], done["left"]) == (False, 4, 0)
        assert (await live.post("/v1/deliveries/drop", {"name": "mem"})).json()["count"] == 0
        token = AccessToken(id=TokenId("tok_1"), scopes=frozenset({Scope.OPERATE}), agents=frozenset({"other"}))
        await live.runtime.db.write(add_token(token, hash_token(spell_token(1))))
        live.client.headers["Authorization"] = f"Bearer {spell_token(1)}"
        named = (await live.post("/v1/replies/settle", {"ids": ["rep_settle"]})).json()
        assert (named["count"], named["unknown"]) == (0, ["rep_settle"])
        assert (await live.post("/v1/replies/resend", {"all": True})).json()["count"] == 0
        refused = await live.post("/v1/replies/resend", {"agent": "main"})
        assert (refused.status_code, code_of(refused)) == (404, "agent_not_found")


@pytest.mark.parametrize("body", [{}, {"ids": ["x"], "all": True}, {"all": True, "limit": 0}, {"older_than_s": -1}])
async def test_over_http_a_wish_that_means_nothing_is_refused(tmp_path, body):
    async with serve(tmp_path) as live:
        refused = await live.post("/v1/deliveries/replay", body)
        assert (refused.status_code, code_of(refused)) == (400, "invalid_input")
