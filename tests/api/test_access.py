"""Access requests, linked accounts and moved chats are decided over HTTP and on the command line with the same answers,
by an operator only. A linked person finds their own conversations and no other person does. A configuration is checked
without starting a runtime.
"""

import asyncio
import json
import os
import stat
import sys

import pytest
from typer.testing import CliRunner

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.cli.commands import app
from holdfast.config.draft import TEMPLATE
from holdfast.inbox.access import PairingAsk
from holdfast.inbox.access_sql import ask_pairing, is_admitted
from holdfast.kernel.ids import AgentName, MailboxId, Principal, ReplyId, TokenId
from holdfast.outbox.reply_sql import list_replies
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.support.live import code_of, serve

BARE = AgentPolicy(memory={})
BOB = "telegram:7"
CODE = "7K2MPQ9X"
ALL_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TELEGRAM_TOKEN", "BOT_A", "BOT_B")


def stranger(principal=BOB, code=CODE, name="Bob"):
    return PairingAsk(
        agent=AgentName("main"),
        channel="telegram",
        principal=Principal(principal),
        address=f"agent:main:telegram:dm:{principal.partition(':')[2]}",
        code=code,
        reply=ReplyId(f"rep_{code}"),
        new_mailbox=MailboxId(f"box_{code}"),
        name=name,
    )


@pytest.fixture
def holdfast(tmp_path, monkeypatch):
    for name in ALL_KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")  # nobody

    def command(*arguments):
        quiet = {"HOLDFAST_DATA": str(tmp_path), "HOLDFAST_CONFIG": "", "NO_COLOR": "1"}
        return CliRunner().invoke(app, [*map(str, arguments)], env=quiet)

    return command


def asked(done):
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def refusal(answered):
    return answered.status_code, code_of(answered)


def prepared(folder, *work):
    """A data folder after some work of a process that is gone."""

    async def do():
        async with await open_runtime(folder, agents=make_agents(policy=BARE)) as runtime:
            for one in work:
                await one(runtime)

    asyncio.run(do())


def said(text, chat, sender):
    return lambda runtime: runtime.ask(chat, text, sender=sender)


# --- strangers ---------------------------------------------------------------------------------------


def test_a_stranger_is_listed_let_in_and_sent_away_again(tmp_path, holdfast):
    prepared(tmp_path, lambda runtime: runtime.db.write(ask_pairing(stranger(name="Bob\x1b[31m"))))
    listed = holdfast("pairs")
    assert "7K2M-PQ9X" in listed.stdout
    assert "\x1b" not in listed.stdout, "a name cannot steer the terminal"
    assert asked(holdfast("pairs", "--json"))["pairs"][0]["state"] == "asking"
    assert holdfast("pair", "7k2m pq9x").stdout == "telegram:7 may now talk to main.\n"
    assert asked(holdfast("pair", CODE, "--json"))["state"] == "admitted"
    assert holdfast("unpair", BOB).stdout == "The access of telegram:7 to main is revoked.\n"
    assert asked(holdfast("unpair", BOB, "--json")) == {"principal": BOB, "agents": []}
    refused = holdfast("pair", CODE)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error[pairing_not_found]: ")


def test_who_is_still_let_in_as_somebody_else_is_not_called_a_stranger_only(tmp_path, holdfast):
    """Being let in follows the person: an operator who sends one account away is told of the other."""
    carol = "telegram:8"
    prepared(
        tmp_path,
        lambda runtime: runtime.db.write(ask_pairing(stranger())),
        lambda runtime: runtime.db.write(ask_pairing(stranger(carol, "8K2MPQ9X", "Carol"))),
    )
    for wish in (("pair", CODE), ("pair", "8K2MPQ9X"), ("link", BOB, carol)):
        assert holdfast(*wish).exit_code == 0
    first, *but = holdfast("unpair", BOB).stdout.splitlines()
    assert first == "The access of telegram:7 to main is revoked."
    assert but == ["It still has access to main through a linked account: see `holdfast links`."]
    assert holdfast("unpair", carol).stdout == "The access of telegram:8 to main is revoked.\n"
    assert holdfast("unpair", BOB).stdout == "telegram:7 was not paired; nothing changed.\n"


async def test_over_http_an_operator_decides_and_the_stranger_is_told(tmp_path):
    async with serve(tmp_path, policy=BARE) as live:
        await live.runtime.db.write(ask_pairing(stranger()))
        (seen,) = (await live.get("/v1/pairs")).json()["pairs"]
        assert (seen["code"], seen["principal"], seen["state"]) == ("7K2M-PQ9X", BOB, "asking")
        done = await live.post(f"/v1/pairs/{seen['code']}", {"decision": "admit"})
        assert (done.status_code, done.json()["state"]) == (200, "admitted")
        told = await live.runtime.db.read(list_replies(channel="telegram"))
        assert [one.state for one in told] == ["pending", "pending"]
        assert refusal(await live.post("/v1/pairs/22222222", {})) == (404, "pairing_not_found")
        assert (await live.post("/v1/unpair", {"principal": BOB})).json()["agents"] == ["main"]
        (latest, *_) = [
            one for one in (await live.get("/v1/operations")).json()["operations"] if one["kind"] == "unpair"
        ]
        assert latest["detail"]["principal"] == BOB
        assert refusal(await live.get("/v1/pairs", agent="../x")) == (400, "invalid_name")


async def test_who_is_no_admin_decides_nothing(tmp_path):
    """What a token that names agents may decide is in tests/security/test_limited_tokens.py."""
    secret = spell_token(1)
    token = AccessToken(id=TokenId("tok_1"), scopes=frozenset({Scope.OPERATE}))
    async with serve(tmp_path, policy=BARE) as live:
        await live.runtime.db.write(ask_pairing(stranger()))
        await live.runtime.db.write(add_token(token, hash_token(secret)))
        for path, body in (
            (f"/v1/pairs/{CODE}", {}),
            ("/v1/unpair", {"principal": BOB}),
            ("/v1/links", {"principal": BOB, "person": "ada"}),
            ("/v1/unlink", {"principal": BOB}),
            ("/v1/addresses/move", {"old": "a", "new": "b"}),
        ):
            answered = await live.client.post(path, json=body, headers={"Authorization": f"Bearer {secret}"})
            assert refusal(answered) == (403, "scope_required"), path
        assert not await live.runtime.db.read(is_admitted(AgentName("main"), Principal(BOB)))


# --- people ------------------------------------------------------------------------------------------


def test_a_linked_account_resumes_what_the_person_said_and_others_do_not(tmp_path, holdfast):
    prepared(
        tmp_path,
        said("my boat is called marzipan", "phone", "telegram:1"),
        said("/title boats", "phone", "telegram:1"),
        said("hi", "desk", "discord:22222"),
    )
    assert asked(holdfast("link", "discord:22222", "telegram:1", "--json"))["person"] == "telegram:1"
    assert "discord:22222 is now linked to telegram:1" in holdfast("link", "discord:22222", "telegram:1").stdout
    answers = []

    async def resume(runtime, chat, sender):
        answers.append(await runtime.ask(chat, "/resume boats", sender=sender))

    prepared(
        tmp_path,
        lambda runtime: resume(runtime, "theirs", "telegram:2"),
        lambda runtime: resume(runtime, "desk", "discord:22222"),
    )
    assert "boats" in answers[1]
    assert "no session" in answers[0].lower(), answers[0]
    assert "marzipan" not in answers[0]
    assert [one["principal"] for one in asked(holdfast("links", "--json"))["links"]] == ["discord:22222"]
    assert "discord:22222" in holdfast("links").stdout
    assert holdfast("unlink", "discord:22222").stdout == "discord:22222 is no longer linked to telegram:1.\n"
    assert asked(holdfast("unlink", "discord:22222", "--json"))["link"] is None


def test_a_link_that_leaves_open_who_is_who_is_refused(tmp_path, holdfast):
    prepared(tmp_path)
    asked(holdfast("link", "discord:22222", "telegram:1", "--json"))
    for principal, person in (("telegram:1", "discord:22222"), ("discord:22222", "ada"), ("slack:T1.U1",) * 2):
        refused = holdfast("link", principal, person)
        assert refused.exit_code == 1
        assert refused.stderr.startswith("error[identity_conflict]: ")


TYPOS = {
    ("telegramm:12x", "ada"): "did you mean telegram?",
    ("telegram:12x", "ada"): "write a number, as in telegram:123456789",
    ("a", "b"): "'a' is no account; write <channel>:<id>",
    ("telegram:1", "discrod:2"): "did you mean discord?",
    ("matrix:1", "ada"): "there is no channel 'matrix'; known are discord, slack, telegram",
}


@pytest.mark.parametrize(("wish", "words"), TYPOS.items(), ids=str)
def test_a_link_of_what_is_no_account_is_refused(tmp_path, holdfast, wish, words):
    prepared(tmp_path)
    refused = holdfast("link", *wish)
    assert (refused.exit_code, refused.stderr.startswith("error[invalid_input]: ")) == (1, True)
    assert words in refused.stderr
    assert asked(holdfast("links", "--json")) == {"links": []}


def test_a_token_for_an_agent_that_there_is_not_is_refused(tmp_path, holdfast):
    assert holdfast("token", "new", "--scope", "read", "--agent", "nope").exit_code == 0  # any name is an agent
    (tmp_path / "holdfast.toml").write_text("[agents.ada]\n", encoding="utf-8")
    refused = holdfast("token", "new", "--scope", "read", "--agent", "nope")
    assert refused.stderr.startswith("error[agent_not_found]: there is no agent 'nope'; configured are ada")
    assert len(asked(holdfast("token", "list", "--json"))["tokens"]) == 1


async def test_over_http_a_link_is_made_listed_refused_and_taken_back(tmp_path):
    async with serve(tmp_path, policy=BARE) as live:
        wish = {"principal": "discord:2", "person": "ada"}
        made = await live.post("/v1/links", wish)
        assert (made.status_code, made.json()["person"]) == (200, "ada")
        assert (await live.post("/v1/links", wish)).json() == made.json()
        assert refusal(await live.post("/v1/links", {**wish, "person": "ben"})) == (409, "identity_conflict")
        for typo in ("", "a", "telegramm:1"):
            assert refusal(await live.post("/v1/links", {"principal": typo, "person": "b"})) == (400, "invalid_input")
        assert (await live.get("/v1/links")).json() == {"links": [made.json()]}
        assert (await live.post("/v1/unlink", {"principal": "discord:2"})).json()["link"] == made.json()
        assert (await live.get("/v1/links")).json() == {"links": []}


async def test_memory_follows_a_linked_person_and_leaves_when_the_link_does(tmp_path):
    async with await open_runtime(tmp_path) as runtime:
        await runtime.ask("phone", "my boat is called marzipan", sender="telegram:1")
        await runtime.ask("theirs", "my boat is called quince", sender="telegram:2")
        await _delivered(runtime)

        async def remembered(sender):
            found = await runtime.recall("boat", chat="desk", sender=sender)
            return {word for word in ("marzipan", "quince") if any(word in one.text for one in found.memories)}

        assert await remembered("discord:22222") == set()
        await runtime.access.link("discord:22222", "telegram:1")
        assert await remembered("discord:22222") == {"marzipan"}
        await runtime.access.unlink("discord:22222")
        assert await remembered("discord:22222") == set()


async def _delivered(runtime):
    """Wait until the local memory has both turns."""
    feed = runtime.events()
    try:
        while True:
            found = await runtime.deliveries(provider="local")
            if len(found) >= 2 and all(one.state == "delivered" for one in found):
                return
            await feed.next_within(100)
    finally:
        feed.close()


# --- places ------------------------------------------------------------------------------------------


def test_a_moved_address_leads_to_the_old_conversation(tmp_path, holdfast):
    prepared(tmp_path, said("hello", "old", "ada"), said("hello", "used", "ada"))
    old, new, used = (f"agent:main:http:dm:{chat}" for chat in ("old", "new", "used"))
    unasked = holdfast("move", old, new)
    assert (unasked.exit_code, unasked.stderr.startswith("error[confirmation_required]: ")) == (2, True)
    assert asked(holdfast("move", old, new, "--yes", "--json")) == {"aliases": [new], "refused": []}
    assert holdfast("move", old, new, "--yes").stdout == f"{new} already leads to the conversation of {old}.\n"
    for arguments, code in (
        ((old, used), "address_taken"),
        (("agent:main:http:dm:none", new), "address_not_found"),
        (("nonsense", new), "invalid_address"),
        ((old, "agent:other:http:dm:new"), "invalid_input"),
    ):
        refused = holdfast("move", *arguments, "--yes")
        assert refused.stderr.startswith(f"error[{code}]: "), refused.stderr
    sessions = {}

    async def look(runtime):
        for chat in ("old", "new"):
            sessions[chat] = [one.id for one in await runtime.sessions(agent="main", chat=chat)]

    prepared(tmp_path, look)
    assert sessions["old"] == sessions["new"] != []


async def test_over_http_an_address_is_moved_or_refused(tmp_path):
    async with serve(tmp_path, policy=BARE) as live:
        await live.runtime.ask("old", "hello")
        wish = {"old": "agent:main:http:dm:old", "new": "agent:main:http:dm:new"}
        assert (await live.post("/v1/addresses/move", wish)).json()["aliases"] == [wish["new"]]
        assert refusal(await live.post("/v1/addresses/move", {**wish, "old": "x"})) == (400, "invalid_address")
        missing = {**wish, "old": "agent:main:http:dm:never"}
        assert refusal(await live.post("/v1/addresses/move", missing)) == (404, "address_not_found")


# --- the configuration -------------------------------------------------------------------------------


def test_init_writes_a_private_file_once(tmp_path, holdfast):
    done = holdfast("init")
    file = tmp_path / "holdfast.toml"
    assert done.exit_code == 0
    assert file.read_text(encoding="utf-8") == TEMPLATE
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("[agents.mine]\n", encoding="utf-8")
    refused = holdfast("init")
    assert (refused.exit_code, file.read_text(encoding="utf-8")) == (1, "[agents.mine]\n")
    assert "exists already" in refused.stderr
    kept = asked(holdfast("init", "--force", "--json"))["kept"]
    assert (file.read_text(encoding="utf-8"), kept) == (TEMPLATE, str(tmp_path / "holdfast.toml.bak"))
    assert (tmp_path / "holdfast.toml.bak").read_text(encoding="utf-8") == "[agents.mine]\n"


def test_what_init_wrote_would_run(tmp_path, holdfast):
    asked(holdfast("init", "--json"))
    found = asked(holdfast("config", "check", "--json"))
    (main,) = found["agents"]
    assert found["ok"]
    assert (main["agent"], main["model"]) == ("main", "practice (detected)")
    assert (main["memory"], main["channels"]) == (["local", "files"], [])
    assert "The configuration is valid." in holdfast("config", "check").stdout
    assert asked(holdfast("config", "path", "--json")) == {"file": str(tmp_path / "holdfast.toml"), "exists": True}


def test_everything_that_is_wrong_is_said_at_once_and_no_secret_with_it(tmp_path, holdfast, monkeypatch):
    monkeypatch.setenv("BOT_A", "12345:canary-of-a-token")
    (tmp_path / "holdfast.toml").write_text(
        """
        [agents.main]
        model = "opnai:gpt-5.2"
        [agents.main.memory.lokal]
        [agents.main.channels.telegram]
        token_env = "BOT_A"
        pol_s = 3
        [agents.main.channels.discord]
        token_env = "NOT_THERE"
        [agents.main.mcp.time]
        comand = ["x"]
        """,
        encoding="utf-8",
    )
    done = holdfast("config", "check", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["ok"]) == (1, False)
    said_ = [one["message"] for one in found["problems"]]
    assert all(one.startswith(str(tmp_path / "holdfast.toml")) for one in said_)
    for words in ("agents.main.memory.lokal", "pol_s", "NOT_THERE", "did you mean openai?", "comand"):
        assert sum(words in one for one in said_) == 1, (words, said_)
    assert [(one["key"].rpartition(".")[0], one["found"]) for one in found["secrets"]] == [
        ("agents.main.channels.telegram", True),
        ("agents.main.channels.discord", False),
    ]
    plain = holdfast("config", "check")
    assert "canary" not in done.stdout + done.stderr + plain.stdout + plain.stderr
    assert "Traceback" not in plain.stderr


def test_a_program_that_is_not_there_is_found(tmp_path, holdfast):
    tables = '[agents.main.mcp.{}]\ncommand = ["{}"]\n'
    (tmp_path / "holdfast.toml").write_text(
        tables.format("there", sys.executable) + tables.format("gone", "no-such-program"), encoding="utf-8"
    )
    (problem,) = json.loads(holdfast("config", "check", "--json").stdout)["problems"]
    assert "agents.main.mcp.gone.command: 'no-such-program': there is no such program; install it" in problem["message"]


def test_a_bot_whose_two_tokens_are_one_is_told_what_that_means(tmp_path, holdfast, monkeypatch):
    monkeypatch.setenv("BOT", "xoxb-canary")
    monkeypatch.setenv("APP", "xoxb-canary")
    for name in ("APP", "BOT"):
        text = f'[agents.a.channels.slack]\ntoken_env = "BOT"\napp_token_env = "{name}"\n'
        (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
        done = holdfast("config", "check")
        assert "slack.token_env has the same token; these two keys need different tokens" in done.stderr
        assert "create a bot for each" not in done.stderr
        assert "canary" not in done.stderr


def test_two_agents_with_one_bot_under_two_names_are_found(tmp_path, holdfast, monkeypatch):
    for name in ("BOT_A", "BOT_B"):
        monkeypatch.setenv(name, "12345:canary-of-a-token")
    tables = "".join(f'[agents.{one}.channels.telegram]\ntoken_env = "BOT_{one.upper()}"\n' for one in ("a", "b"))
    (tmp_path / "holdfast.toml").write_text(tables, encoding="utf-8")
    done = holdfast("config", "check", "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert "duplicate token: agents.a.channels.telegram.token_env" in problem["message"]
    assert "canary" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("[agents.main]\nmodle = 'x'", "config_invalid", "agents.main.modle"),
        ("[agents.main\n", "config_invalid", "line 1, column"),
        ("[agents.main.access]\nallow = ['@bob']", "allowlist_not_immutable", "'@bob'"),
        ("[agents.main.channels.telegram]\ntoken = 'canary'", "config_invalid", "write token_env = ..."),
        ("[agents.CON]", "config_invalid", "agents.CON"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(tmp_path, holdfast, text, code, words):
    (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
    done = holdfast("config", "check")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error[{code}]: {tmp_path}")
    assert words in done.stderr
    assert "canary" not in done.stdout + done.stderr


def test_without_a_file_every_name_is_an_agent(holdfast):
    done = holdfast("config", "check")
    assert done.exit_code == 0
    assert "no holdfast.toml" in done.stdout
