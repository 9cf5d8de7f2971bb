"""`holdfast token` and `holdfast config check`: a new token says for whom it speaks, and an old one is named."""

import asyncio
import json

import apsw
import pytest
from typer.testing import CliRunner

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token
from holdfast.api.auth.access_token_sql import add_token, revoke_token
from holdfast.cli.commands import app
from holdfast.kernel.ids import TokenId
from holdfast.runtime.app import open_runtime
from holdfast.store.sqlite.migrate import load_migrations
from holdfast.store.sqlite.opening import open_ready

BEFORE = next(n for n, step in enumerate(load_migrations()) if "alter table token add column relay" in step)


@pytest.fixture
def holdfast(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(app, [*arguments, "--data", str(tmp_path)], prog_name="holdfast")

    return run


def test_a_token_that_sends_for_no_sender_is_refused_with_the_three_choices(holdfast):
    for scope in (["--scope", "send"], ["--scope", "send", "--scope", "read", "--robot"]):
        done = holdfast("token", "new", *scope, "--json")
        assert done.exit_code != 0
        error = json.loads(done.stdout)["error"]
        assert error["code"] == "binding_required"
        assert all(choice in error["hint"] for choice in ("--sender NAME", "--chat NAME", "--relay"))
    assert json.loads(holdfast("token", "list", "--json").stdout).get("tokens", []) == []


@pytest.mark.parametrize(
    "wrong",
    [
        ["--scope", "send", "--sender", "ada", "--relay"],
        ["--scope", "send", "--sender", "ada/x"],
        ["--scope", "send", "--chat", ""],
        ["--scope", "admin", "--sender", "ada"],
        ["--scope", "read", "--relay"],
    ],
    ids=" ".join,
)
def test_a_binding_that_makes_no_sense_is_refused_and_no_token_is_made(holdfast, wrong):
    done = holdfast("token", "new", *wrong, "--json")
    assert done.exit_code != 0
    assert json.loads(done.stdout)["error"]["code"] in {"invalid_input", "invalid_name"}
    assert "Traceback" not in done.output


def test_tokens_are_made_and_listed_with_what_they_speak_for(holdfast):
    for more, told in (
        (["--scope", "send", "--sender", "ada", "--chat", "family"], ("ada", ["family"], False)),
        (["--scope", "send", "--chat", "b", "--chat", "a"], (None, ["a", "b"], False)),
        (["--scope", "send", "--relay"], (None, [], True)),
        (["--scope", "read"], (None, [], False)),
        (["--scope", "admin"], (None, [], False)),
    ):
        made = json.loads(holdfast("token", "new", *more, "--json").stdout)
        assert (made["sender"], made["chats"], made["relay"]) == told
        assert made["confirmed"] is True
    shown = holdfast("token", "list").stdout
    assert all(words in shown for words in ("sender ada, family", "a, b", "relay"))
    assert "warning" not in holdfast("token", "list").output
    assert json.loads(holdfast("config", "check", "--json").stdout)["notes"] == []


@pytest.mark.parametrize(
    "refused",
    [("hunter2", "token_too_short"), ("a" * 64, "token_too_weak"), ("ü" * 40, "config_invalid")],
    ids=["short", "repeated", "not-ascii"],
)
@pytest.mark.parametrize("place", ["variable", "file"])
def test_config_check_tells_of_a_token_that_up_refuses(holdfast, tmp_path, monkeypatch, place, refused):
    """Previously `config check` said that all was well, and `up` refused to start."""
    token, code = refused
    monkeypatch.setenv("HOLDFAST_TOKEN", token if place == "variable" else "")
    if place == "file":
        (tmp_path / "token").write_text(token)
    done = holdfast("config", "check", "--json")
    checked = json.loads(done.stdout)
    assert (done.exit_code, checked["ok"]) == (1, False)
    assert [one["code"] for one in checked["problems"]] == [code]
    assert token not in done.output
    started = holdfast("up", "--port", "0", "--json")
    assert (started.exit_code, json.loads(started.stdout)["error"]["code"]) == (1, code)


def test_config_check_makes_no_token_and_accepts_one_that_up_accepts(holdfast, tmp_path, monkeypatch):
    assert holdfast("config", "check").exit_code == 0
    assert not (tmp_path / "token").exists()
    monkeypatch.setenv("HOLDFAST_TOKEN", "0123456789abcdef" * 2 + "fedcba")
    assert holdfast("config", "check").exit_code == 0


async def old_tokens(folder):
    """One that holds, and one that was revoked."""
    async with await open_runtime(folder, serve=False) as runtime:
        for id_, label in (("tok_old", "web"), ("tok_gone", "")):
            old = AccessToken(id=TokenId(id_), scopes=frozenset({Scope.SEND}), label=label)
            await runtime.db.write(add_token(old, hash_token(id_)))
        await runtime.db.write(revoke_token(TokenId("tok_gone")))


def test_a_token_from_before_is_named_by_list_and_by_config_check(holdfast, tmp_path):
    asyncio.run(old_tokens(tmp_path))
    listed = holdfast("token", "list")
    assert "tok_old (web) speaks for anybody in any chat" in listed.stderr
    assert "holdfast token revoke tok_old" in listed.stderr
    assert "anyone (not confirmed)" in listed.stdout
    (one,) = [one for one in json.loads(holdfast("token", "list", "--json").stdout)["tokens"] if not one["revoked_at"]]
    assert (one["relay"], one["confirmed"]) == (True, False)
    checked = json.loads(holdfast("config", "check", "--json").stdout)
    assert checked["ok"] is True
    (note,) = checked["notes"]
    assert "tok_old (web)" in note
    assert "tok_old (web)" in holdfast("config", "check").stdout


def test_config_check_leaves_a_store_of_an_earlier_release_as_it_is(holdfast, tmp_path):
    file = tmp_path / "holdfast.db"
    open_ready(file, load_migrations()[:BEFORE]).close()
    (note,) = json.loads(holdfast("config", "check", "--json").stdout)["notes"]
    assert "earlier release" in note
    with apsw.Connection(str(file)) as db:
        assert next(iter(db.execute("pragma user_version")))[0] == BEFORE


def test_config_check_names_a_store_that_cannot_be_opened_and_leaves_it_as_it_is(holdfast, tmp_path):
    (tmp_path / "holdfast.db").write_bytes(b"not a database, but somebody's file" * 200)
    before = (tmp_path / "holdfast.db").read_bytes()
    done = holdfast("config", "check", "--json")
    checked = json.loads(done.stdout)
    assert (done.exit_code, checked["ok"], len(checked["problems"])) == (1, False, 1)
    assert checked["problems"][0]["code"].startswith("store_")
    assert (tmp_path / "holdfast.db").read_bytes() == before
