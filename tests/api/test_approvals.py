"""Approvals for operators: what waits is seen and decided over HTTP and on the command line, within a token's reach."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.auth.viewer import Viewer
from holdfast.cli.commands import app
from holdfast.kernel.errors import ApprovalNotFound
from holdfast.kernel.ids import ApprovalId, MessageId, TokenId
from holdfast.turns.approval import Decision
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.support.fakes import ScriptedModel, calls, happened, says, soon
from tests.support.live import code_of, serve

GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})


def wishing() -> ScriptedModel:
    return ScriptedModel(calls('memory {"action": "read"}'), says("done"))


async def waiting(live) -> tuple[MessageId, ApprovalId]:
    """The message that waits, and the approval that it waits for."""
    feed = live.runtime.events()
    message = (await live.say("look")).json()["message"]
    await happened(feed, "turn.asked")
    (found,) = (await live.get("/v1/approvals")).json()["approvals"]
    return MessageId(message), ApprovalId(found["id"])


async def command(*arguments):
    """A command beside the process that serves."""
    done = await asyncio.to_thread(CliRunner().invoke, app, [*map(str, arguments), "--json"])
    return done.exit_code, json.loads(done.stdout)


async def test_over_http_a_call_is_seen_and_approved(tmp_path):
    async with serve(tmp_path, model=wishing(), policy=GUARDED) as live:
        message, approval = await waiting(live)
        (view,) = (await live.get("/v1/approvals", state="all")).json()["approvals"]
        assert (view["agent"], view["tool"], view["arguments"]) == ("main", "memory", '{"action": "read"}')
        assert (view["asked_by"], view["decision"]) == ("hello", None)
        done = await live.post(f"/v1/approvals/{approval.lower()}", {"decision": "approve"})
        assert (done.status_code, done.json()["decision"]) == (200, "approved")
        assert done.json()["decided_by"] == "token:operator"
        assert await soon(live.runtime.reply_to(message)) == "done"
        assert (await live.get("/v1/approvals")).json() == {"approvals": []}
        again = await live.post(f"/v1/approvals/{approval}", {"decision": "deny"})
        assert (again.status_code, again.json()["decision"]) == (409, "approved")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/approvals/NOPE22", {"decision": "approve"}, 404, "approval_not_found"),
        ("/v1/approvals/NOPE22", {"decision": "perhaps"}, 400, "invalid_input"),
        ("/v1/approvals/NOPE22", {"verdict": "approve"}, 400, "invalid_input"),
    ],
)
async def test_a_bad_request_gets_a_sentence_and_a_code(path, body, status, code, tmp_path):
    async with serve(tmp_path) as live:
        response = await live.post(path, body)
        assert (response.status_code, code_of(response)) == (status, code)
        assert (await live.get("/v1/approvals", state="some")).status_code == 400


async def test_on_the_command_line_a_call_is_seen_and_denied(tmp_path):
    model = wishing()
    async with serve(tmp_path, model=model, policy=GUARDED) as live:
        message, approval = await waiting(live)
        code, listed = await command("approvals", "--data", tmp_path)
        assert (code, [one["id"] for one in listed["approvals"]]) == (0, [approval])
        code, denied = await command("deny", approval, "--reason", "not now", "--data", tmp_path)
        assert (code, denied["decision"], denied["decided_by"]) == (0, "denied", "command line")
        assert await soon(live.runtime.reply_to(message)) == "done"
        assert '"not now"' in model.requests[-1][-1].content
        code, late = await command("approve", approval, "--data", tmp_path)
        assert (code, late["decision"]) == (1, "denied")
        code, wrong = await command("approve", "NOPE22", "--data", tmp_path)
        assert (code, wrong["error"]["code"]) == (1, "approval_not_found")


async def test_a_token_for_some_agents_sees_and_decides_theirs_only(tmp_path):
    async with serve(tmp_path, model=wishing(), policy=GUARDED) as live:
        _, approval = await waiting(live)
        scopes = frozenset({Scope.OPERATE})
        others = AccessToken(id=TokenId("t"), scopes=scopes, agents=frozenset({"other"}))
        theirs = AccessToken(id=TokenId("t"), scopes=scopes, agents=frozenset({"main"}))
        viewer = Viewer(live.runtime, others)
        assert await viewer.approvals() == []
        with pytest.raises(ApprovalNotFound):
            await viewer.decide(approval, Decision.APPROVED, reason="", digest="")
        assert (await live.runtime.approvals.find(approval)).decision is None
        assert [one.id for one in await Viewer(live.runtime, theirs).approvals()] == [approval]
