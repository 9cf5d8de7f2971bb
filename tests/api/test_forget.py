"""Forgetting is requested and followed over HTTP, on the command line and in the library, with the same answers. It is
never reported as done while anything is left, and a bad request gets a sentence and a code.

Rules: control 18.
"""

import asyncio
import json

import httpx
import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.kernel.errors import ForgetNotFound, InvalidInput
from holdfast.memory.delivery import Delivered, Landing, PerSession, Refused
from holdfast.memory.forgetter import scrub_forgotten
from holdfast.memory.provider import Capabilities, Configured
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import soon
from tests.support.live import code_of, serve

CANARY = "marmalade"


@pytest.fixture
def holdfast(tmp_path):
    def command(*arguments, stdin=None):
        quiet = {"HOLDFAST_DATA": str(tmp_path), "HOLDFAST_CONFIG": "", "NO_COLOR": "1"}
        return CliRunner().invoke(app, [*map(str, arguments)], env=quiet, input=stdin)

    return command


def talked(folder, *texts):
    async def talk():
        async with await open_runtime(folder, agents=make_agents(policy=AgentPolicy(memory={}))) as runtime:
            for text in texts:
                await runtime.ask("home", text, sender="ada")
            return next(iter(await runtime.sessions())).id

    return asyncio.run(talk())


# --- HTTP -------------------------------------------------------------------------------------------


async def test_over_http_it_is_pending_until_the_last_receipt(tmp_path):
    async with serve(tmp_path, policy=AgentPolicy(memory={})) as live:
        await live.runtime.ask("hello", f"my cat is {CANARY}", sender="ada")
        asked = await live.post("/v1/forget", {"person": "ada", "agent": "main", "id": "please-1"})
        assert asked.status_code == 202
        body = asked.json()
        assert (body["forget"], body["person"], body["agent"]) == ("please-1", "ada", "main")
        assert body["parts"][0]["what"] == "journal"
        assert (body["status"] == "done") == (body["code"] is None)
        assert body["blanked"]["entries"] == 2
        await scrub_forgotten(live.runtime.db)
        found = await live.get("/v1/forget/please-1")
        assert (found.status_code, found.json()["status"], found.json()["code"]) == (200, "done", None)
        assert all(part["state"] == "done" for part in found.json()["parts"])
        again = await live.post("/v1/forget", {"person": "ada", "agent": "main", "id": "please-1"})
        assert (again.status_code, again.json()["requested_at"]) == (202, body["requested_at"])


async def test_the_report_lists_what_went_by_kind_and_what_is_kept_and_why(tmp_path, holdfast):
    async with serve(tmp_path, policy=AgentPolicy(memory={})) as live:
        await live.runtime.ask("home", f"my cat is {CANARY}", sender="ada")
        await live.runtime.ask("home", f"is {CANARY} a cat?", sender="bob")
        await live.post("/v1/forget", {"person": "ada", "id": "please-1"})
        await scrub_forgotten(live.runtime.db)
        body = (await live.get("/v1/forget/please-1")).json()
    kept = {one["what"]: (one["count"], bool(one["why"])) for one in body["kept"]}
    assert set(kept) == {"names", "places", "trail", "others_words", "answers"}
    assert kept["others_words"] == (1, True)
    assert {"entries", "messages", "replies", "sessions"} <= set(body["blanked"])
    shown = await asyncio.to_thread(holdfast, "forgetting", "please-1")
    assert shown.exit_code == 0, shown.output
    assert "kept: others words (1): " in shown.output
    as_json = await asyncio.to_thread(holdfast, "forget-status", "please-1", "--json")
    assert json.loads(as_json.output)["kept"] == body["kept"]


class Stubborn:
    """Keeps what it was told."""

    capabilities = Capabilities(renderer="stubborn/1", recalls=False, memory=False, erases=True)

    async def deliver(self, parcels):
        return [Refused("ask my lawyer") if parcel.erasure else Delivered(parcel.id) for parcel in parcels]

    async def landed(self, parcel):
        return Landing.ABSENT

    async def recall(self, query):
        return ()

    async def healthy(self):
        return None

    async def close(self):
        """Nothing is held."""


async def test_a_provider_that_refuses_is_shown_as_parked_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "holdfast.runtime.plugins.find_factory", lambda *_: lambda _: Configured(Stubborn(), PerSession())
    )
    async with serve(tmp_path, policy=AgentPolicy(memory={"stubborn": {}})) as live:
        await live.runtime.ask("hello", CANARY, sender="ada")
        await soon(until(live, lambda rows: rows and all(row.state == "delivered" for row in rows)))
        asked = (await live.post("/v1/forget", {"person": "ada"})).json()
        assert (asked["status"], asked["code"], asked["agent"]) == ("pending", "forget_pending", None)
        await soon(until(live, lambda rows: any(row.state == "parked" for row in rows)))
        await scrub_forgotten(live.runtime.db)
        found = (await live.get(f"/v1/forget/{asked['forget']}")).json()
        part = next(part for part in found["parts"] if part["what"] == "provider")
        assert (found["status"], found["code"]) == ("pending", "forget_pending")
        assert (part["provider"], part["state"], part["reason"]) == ("stubborn", "parked", "ask my lawyer")


async def until(live, holds):
    while not holds(await live.runtime.deliveries()):
        pass


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_input"),
        ({"person": "ada", "session": "ses_1"}, 400, "invalid_input"),
        ({"person": ""}, 400, "invalid_name"),
        ({"person": "a\nb"}, 400, "invalid_name"),
        ({"person": 7}, 400, "invalid_input"),
        ({"person": "ada", "agent": "../x"}, 400, "invalid_name"),
        ({"person": "ada", "why": "because"}, 400, "invalid_input"),
        ({"session": "ses_nowhere"}, 404, "session_not_found"),
        ({"person": "bob", "id": "used"}, 409, "idempotency_conflict"),
    ],
    ids=str,
)
async def test_a_bad_request_over_http_gets_its_code_and_changes_nothing(tmp_path, body, status, code):
    async with serve(tmp_path, policy=AgentPolicy(memory={})) as live:
        session = await live.talk("hi")
        await live.post("/v1/forget", {"person": "eve", "id": "used"})
        wrong = await live.post("/v1/forget", body)
        assert (wrong.status_code, code_of(wrong)) == (status, code)
        assert len((await live.get(f"/v1/sessions/{session}/context")).json()["messages"]) >= 2
        unknown = await live.get("/v1/forget/nothing")
        assert (unknown.status_code, code_of(unknown)) == (404, "forget_not_found")


async def test_forgetting_needs_the_token(tmp_path):
    async with serve(tmp_path, policy=AgentPolicy(memory={})) as live:
        async with httpx.AsyncClient(base_url=live.url, trust_env=False) as stranger:
            refused = await stranger.post("/v1/forget", json={"person": "user"})
        assert (refused.status_code, code_of(refused)) == (401, "auth_required")


# --- the command line --------------------------------------------------------------------------------


def test_a_session_is_forgotten_on_the_command_line_and_the_audit_passes(tmp_path, holdfast):
    session = talked(tmp_path, CANARY, "more")
    done = holdfast("forget", "--session", session, "--yes", "--json")
    body = json.loads(done.stdout)
    assert (done.exit_code, body["status"], body["session"]) == (0, "done", session)
    assert json.loads(holdfast("forget-status", body["forget"], "--json").stdout) == body
    shown = holdfast("forgetting", body["forget"])
    assert shown.exit_code == 0
    assert "done" in shown.stdout
    assert holdfast("audit").exit_code == 0
    assert not any(CANARY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_on_a_terminal_it_asks_first(tmp_path, holdfast, monkeypatch):
    session = talked(tmp_path, CANARY)
    monkeypatch.setattr("holdfast.cli.command._can_ask", lambda: True)
    assert holdfast("forget", "--person", "ada", stdin="n\n").exit_code == 1
    assert CANARY in holdfast("show", session).stdout
    told = holdfast("forget", "--person", "ada", "--json", stdin="y\n")
    answer = json.loads(told.stdout.partition("y\n")[2])  # behind the echo of what was typed
    assert (told.exit_code, answer["person"], "Permanently erase" in told.stderr) == (0, "ada", True)
    assert CANARY not in holdfast("show", session).stdout
    assert holdfast("forget", "--person", "ada", "--yes").exit_code == 0


def test_without_a_terminal_it_is_not_done_unless_somebody_says_yes(tmp_path, holdfast):
    session = talked(tmp_path, CANARY)
    for more in ((), ("--json",)):
        done = holdfast("forget", "--person", "ada", *more)
        assert (done.exit_code, done.stderr.startswith("error[confirmation_required]: ")) == (2, True), done.stderr
        assert "--yes" in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "confirmation_required"
    assert CANARY in holdfast("show", session).stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "invalid_input"),
        (("--person", "ada", "--session", "ses_1"), "invalid_input"),
        (("--session", "ses_nowhere"), "session_not_found"),
    ],
    ids=str,
)
def test_a_bad_request_on_the_command_line_gets_its_code(tmp_path, holdfast, arguments, code):
    talked(tmp_path, "hi")
    done = holdfast("forget", *arguments, "--yes")
    assert done.exit_code == 1
    assert f"error[{code}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_somebody_unknown_is_nothing_found_and_said_so(tmp_path, holdfast):
    talked(tmp_path, "hi")
    done = holdfast("forget", "--person", "nobody", "--yes")
    assert (done.exit_code, "nothing was found" in done.stdout) == (0, True)
    assert holdfast("forget-status", "forget_x").exit_code == 1


# --- a program ---------------------------------------------------------------------------------------


async def test_a_program_asks_the_runtime(tmp_path):
    async with await open_runtime(tmp_path, agents=make_agents(policy=AgentPolicy(memory={}))) as runtime:
        await runtime.ask("home", CANARY, sender="ada")
        asked = await runtime.forget(person="ada", agent="main")
        assert asked.blanked["entries"] == 2
        await scrub_forgotten(runtime.db)
        assert (await runtime.forget_status(asked.id)).done
        with pytest.raises(InvalidInput):
            await runtime.forget()
        with pytest.raises(ForgetNotFound):
            await runtime.forget_status("forget_nowhere")
