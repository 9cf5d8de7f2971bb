"""A person approves only a call that was shown to them in full, and the approved call is, to the byte, the one that
runs.
"""

import asyncio
import json

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.cli.commands import app
from holdfast.kernel.ids import TokenId
from holdfast.turns.call_view import ARGUMENTS_BYTES_MAX, short_digest
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from holdfast.turns.tool_calls import ToolCaller
from holdfast.turns.turn import Phase
from tests.support.approving import Till, asked_in
from tests.support.fakes import Process, ScriptedModel, agents, calls, happened, says, settled, soon, the_session
from tests.support.live import code_of, serve

HEAD = "Send the weekly report to the team. " * 20  # more than the 600 characters that were shown
WISH = f'pay {{"note": "{HEAD}", "amount": 9999}}'
HIDDEN = f'pay {{"note": "{HEAD * 3}", "amount": 9999, "more": "{HEAD * 3}"}}'
OTHER = "0123-4567-89ab"
GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})
LONG_ARGUMENTS = json.dumps({"action": "add", "target": "memory", "text": HEAD * 3})


async def asks(runtime):
    """The event in which the next question is told."""
    feed = runtime.events()
    message = await runtime.send("c", "send the report")
    return message, await happened(feed, "turn.asked")


async def test_what_stands_behind_a_long_harmless_head_is_shown(tmp_path):
    model = ScriptedModel(calls(WISH), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[Till().tool()])) as runtime:
        _, asked = await asks(runtime)
        assert '"amount": 9999}' in asked.text


async def test_what_hides_between_head_and_tail_is_not_approved_by_its_id_alone(tmp_path):
    till = Till()
    model = ScriptedModel(calls(HIDDEN), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.tool()])) as runtime:
        message, asked = await asks(runtime)
        assert "9999" not in asked.text
        assert "characters left out" in asked.text
        (view,) = await runtime.approvals.list()
        assert short_digest(view.digest) not in asked.text
        assert (await runtime.ask("c", f"/approve {view.id}")).startswith("Not approved: the question left out")
        assert (await runtime.ask("c", f"/approve {view.id} {OTHER}")).startswith("Not approved: this is not")
        assert (await runtime.approvals.find(view.id)).decision is None
        assert (await runtime.ask("c", f"/approve {view.id} {short_digest(view.digest)}")).startswith("Approved")
        # The tool refuses arguments that it does not know: it was called, and with all of them.
        assert await soon(runtime.reply_to(message)) == "done"
        assert "not usable" in model.requests[-1][-1].content


async def test_a_call_that_changes_after_the_yes_is_not_run(tmp_path, monkeypatch):
    """Something between the yes and the tool goes wrong: the store compares, and the tool is not called."""
    till, tried = Till(), asyncio.Event()
    honest = ToolCaller.act

    async def changed(actor, run, open_calls):
        if run.turn.phase is Phase.AWAITING:
            other = msgspec.structs.replace(open_calls[0].call, arguments='{"amount": 9999}')
            open_calls = (type(open_calls[0])(other, open_calls[0].started), *open_calls[1:])
            tried.set()
        return await honest(actor, run, open_calls)

    model = ScriptedModel(calls('pay {"amount": 3}'), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.tool()])) as runtime:
        message, asked = await asks(runtime)
        monkeypatch.setattr(ToolCaller, "act", changed)
        await runtime.ask("c", f"/approve {asked_in([asked.text])}")
        await soon(tried.wait())
        await runtime.ask("c", "/stop")
        (trace,) = await settled(runtime, message)
        assert (trace.state.value, till.paid) == ("interrupted", [])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("{not json", "no valid JSON"),
        ('{"amount": 1, "amount": 9999}', "name a key twice"),
        ('{"note": "\\ud800"}', "half of a surrogate pair"),
        (json.dumps({"note": "x" * ARGUMENTS_BYTES_MAX}), "a person is shown at most 65536"),
    ],
    ids=["no JSON", "a key twice", "half a pair", "too long"],
)
async def test_what_cannot_be_shown_is_neither_asked_nor_run_and_the_turn_goes_on(arguments, why, tmp_path):
    till = Till()
    model = ScriptedModel(calls(f"pay {arguments}", 'pay {"amount": 3}'), says("done"))
    async with await Process.start(tmp_path, agents(model, tools=[till.tool()])) as runtime:
        message, asked = await asks(runtime)
        assert '{"amount": 3}' in asked.text, "the other call is asked about as ever"
        await runtime.ask("c", f"/approve {asked_in([asked.text])}")
        assert await soon(runtime.reply_to(message)) == "done"
        first, second = [one.content for one in model.requests[-1] if one.role == "tool"]
        assert first.startswith("This call was not run: a person has to approve it, and cannot be shown what it does")
        assert why in first
        assert (second, till.paid) == ("paid 3", [3])
        assert len(await runtime.approvals.list(decided=True)) == 1
        entries = await runtime.history(await the_session(runtime))
        outcomes = [getattr(one.entry.body, "outcome", None) for one in entries if one.entry.kind == "tool"]
        assert outcomes == ["not_run", "ok"]


# --- over HTTP and on the command line


async def long_question(live):
    feed = live.runtime.events()
    await live.say("remember it")
    await happened(feed, "turn.asked")
    (found,) = (await live.get("/v1/approvals")).json()["approvals"]
    return found


def remembering() -> ScriptedModel:
    return ScriptedModel(calls(f"memory {LONG_ARGUMENTS}"), says("done"))


async def test_over_http_a_decision_names_what_it_is_about(tmp_path):
    async with serve(tmp_path, model=remembering(), policy=GUARDED) as live:
        found = await long_question(live)
        path = f"/v1/approvals/{found['id']}"
        whole = (await live.get(path)).json()
        assert (whole["arguments"], whole["cut"], whole["digest"]) == (LONG_ARGUMENTS, True, found["digest"])
        assert json.loads(whole["shown"]) == json.loads(LONG_ARGUMENTS)
        assert whole["shown"].splitlines()[1] == '  "action": "add",'
        for body, code in (
            ({"decision": "approve"}, "approval_digest_needed"),
            ({"decision": "approve", "digest": OTHER}, "approval_changed"),
            ({"decision": "deny", "digest": OTHER}, "approval_changed"),
        ):
            refused = await live.post(path, body)
            assert (refused.status_code, code_of(refused)) == (409, code)
            assert (await live.get(path)).json()["decision"] is None
        done = await live.post(path, {"decision": "approve", "digest": whole["digest"]})
        assert (done.status_code, done.json()["decision"]) == (200, "approved")
        trail = (await live.get("/v1/actions", verb="approval.decided")).json()["actions"]
        assert trail[0]["detail"]["digest"] == short_digest(whole["digest"])
        assert {one["code"] for one in trail[1:]} == {"approval_digest_needed", "approval_changed"}


async def test_a_bound_token_sees_all_of_its_own_call_and_nothing_of_anothers(tmp_path):
    async with serve(tmp_path, model=remembering(), policy=GUARDED) as live:
        found = await long_question(live)
        for n, sender in enumerate((found["asked_by"], "mallory"), start=1):
            token = AccessToken(id=TokenId(f"tok_{n}"), scopes=frozenset({Scope.READ}), binding=Binding(sender=sender))
            await live.runtime.db.write(add_token(token, hash_token(spell_token(n))))
        path = f"/v1/approvals/{found['id']}"
        own, others = [
            await live.client.get(path, headers={"Authorization": f"Bearer {spell_token(n)}"}) for n in (1, 2)
        ]
        assert (own.status_code, others.status_code, code_of(others)) == (200, 404, "approval_not_found")


async def command(*arguments):
    """A command beside the process that serves."""
    done = await asyncio.to_thread(CliRunner().invoke, app, [*map(str, arguments)])
    return done.exit_code, done.stdout


async def test_on_the_command_line_all_of_a_call_is_shown_and_its_digest_approves_it(tmp_path):
    async with serve(tmp_path, model=remembering(), policy=GUARDED) as live:
        found = await long_question(live)
        code, shown = await command("approvals", "show", found["id"], "--data", tmp_path)
        digest = short_digest(found["digest"])
        assert code == 0
        assert f"digest    {digest}" in shown
        assert f"size      {len(LONG_ARGUMENTS)} characters" in shown
        assert json.loads(shown[shown.index("{") :]) == json.loads(LONG_ARGUMENTS)
        code, listed = await command("approvals", "--data", tmp_path)
        assert (code, "characters left out" in listed, digest in listed) == (0, True, False)
        code, refused = await command("approve", found["id"], "--data", tmp_path, "--json")
        assert (code, json.loads(refused)["error"]["code"]) == (1, "approval_digest_needed")
        code, refused = await command("approve", found["id"], OTHER, "--data", tmp_path, "--json")
        assert (code, json.loads(refused)["error"]["code"]) == (1, "approval_changed")
        code, done = await command("approve", found["id"], digest, "--data", tmp_path)
        assert (code, done.startswith("Approved: memory")) == (0, True)
