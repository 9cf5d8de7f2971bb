"""The promise: `holdfast hermes import` reports what it did. Bad input is refused with a code and changes nothing."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli.commands import app
from holdfast.kernel.ids import SessionId
from holdfast.sessions.history_sql import read_session
from tests.support.hermes_home import HermesChat, HermesHome

CHAT = HermesChat()


@pytest.fixture
def home(tmp_path):
    made = HermesHome(tmp_path / "home")
    made.session("s1", CHAT, title="Cats")
    made.say("s1", "my cat is called Byron", "Nice.")
    made.route(CHAT, "s1")
    made.remember(memory=["Deploys on Fridays."], user=["Ada likes tea."])
    yield made
    made.close()


@pytest.fixture
def run(tmp_path):
    def call(*arguments, exit_code=0):
        data = ["--data", str(tmp_path / "data")]
        done = CliRunner().invoke(app, ["hermes", "import", str(tmp_path / "home"), *arguments, *data])
        assert done.exit_code == exit_code, done.output
        return done

    return call


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_report_names_counts_and_the_digest(run, home):
    home.close()
    before = files_of(home.folder)
    done = run()
    assert "1 session: 1 imported" in done.stdout
    assert "2 = 2 messages + 0 copies + 0 records" in done.stdout
    assert "imported 2 of 2 rows" in done.stderr
    assert files_of(home.folder) == before


def test_the_report_as_json_is_the_same_when_it_is_repeated(run, home):
    first, again = (json.loads(run("--json").stdout) for _ in range(2))
    assert [one["state"] for one in first["sessions"]] == ["imported"]
    assert [one["state"] for one in again["sessions"]] == ["there already"]
    assert [one["state"] for one in first["notes"]] == ["imported", "imported"]
    assert first["digest"] == again["digest"]


def test_a_dry_run_makes_no_data_folder(run, home, tmp_path):
    assert "1 would be imported" in run("--dry-run").stdout
    assert not (tmp_path / "data").exists()


def test_the_write_ahead_log_is_read(run, home):
    assert (home.folder / "state.db-wal").stat().st_size > 0
    assert home.state.stat().st_size < (home.folder / "state.db-wal").stat().st_size
    assert json.loads(run("--json").stdout)["rows"] == 2


def test_a_copied_home_without_the_index_of_its_log_is_read(run, home, tmp_path):
    shutil.copytree(home.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm"))
    home.close()
    shutil.rmtree(home.folder)
    (tmp_path / "copy").rename(home.folder)
    before = files_of(home.folder)
    assert json.loads(run("--json").stdout)["rows"] == 2
    assert files_of(home.folder) == before


def test_bots_are_proposed_without_their_secrets(run, home):
    (home.folder / ".env").write_text("TELEGRAM_BOT_TOKEN=12345:secret\nTELEGRAM_ALLOWED_USERS=4242, 77\n")
    done = run()
    assert '[agents.main.channels.telegram]\ntoken_env = "TELEGRAM_BOT_TOKEN"' in done.stdout
    assert 'allow = ["telegram:4242", "telegram:77"]' in done.stdout
    assert "12345" not in done.output


def test_one_run_leaves_one_row_of_the_audit_trail(run, home, tmp_path):
    first = json.loads(run("--json").stdout)
    run()  # nothing is new
    home.say("s1", "to a session that goes on here", "Nice.")
    run()
    home.session("s2")
    home.say("s2", "and a dog", "Nice.")
    run()
    done = CliRunner().invoke(app, ["audit", "actions", "--json", "--data", str(tmp_path / "data")])
    rows = [one for one in json.loads(done.stdout)["actions"][::-1] if one["verb"] == "history.imported"]
    assert [(one["detail"]["sessions"], one["detail"]["messages"], one["detail"]["new"]) for one in rows] == [
        (1, 2, 1),
        (2, 6, 1),
    ]
    assert rows[0]["detail"]["fingerprint"] == first["digest"]
    assert (rows[0]["subject"], rows[0]["actor"]["kind"]) == ("hermes", "user")
    assert not any(word in json.dumps(rows) for word in ("Byron", "Cats", str(home.folder)))


def test_an_import_that_finds_nothing_leaves_no_row(run, home, tmp_path):
    home.db.execute("delete from messages")
    run()
    done = CliRunner().invoke(app, ["audit", "actions", "--json", "--data", str(tmp_path / "data")])
    assert [one["verb"] for one in json.loads(done.stdout)["actions"]] == ["memory.shared", "memory.shared"]


# --- bad input


def refused(done, code):
    assert f"error[{code}]: " in done.stderr
    assert "Traceback" not in done.output


def test_a_folder_that_is_no_home_is_refused(run, tmp_path):
    (tmp_path / "home").mkdir()
    refused(run(exit_code=1), "hermes_home_invalid")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("schema", [10, 23])
def test_a_schema_that_is_not_known_is_refused(run, home, tmp_path, schema):
    home.db.execute("update schema_version set version = ?", (schema,))
    done = run(exit_code=1)
    refused(done, "hermes_schema_unknown")
    assert f"schema {schema}" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"no database at all" * 100, "hermes_database_corrupt"), (b"", "hermes_database_missing")],
    ids=["foreign", "empty"],
)
def test_a_file_that_is_no_database_of_hermes_is_refused(run, home, tmp_path, body, code):
    home.close()
    home.state.write_bytes(body)
    refused(run(exit_code=1), code)
    assert not (tmp_path / "data").exists()


def test_a_damaged_page_is_reported_and_no_chat_goes_on(run, home):
    home.session("s2")
    for n in range(400):
        home.message("s2", "user" if n % 2 == 0 else "assistant", f"{n} " * 200)
    home.db.execute("pragma wal_checkpoint(truncate)")
    page = home.db.execute(
        "select pageno from dbstat where name = 'messages' and pagetype = 'leaf' order by pageno desc limit 1"
    ).fetchone()
    home.close()
    with home.state.open("r+b") as opened:
        opened.seek((page[0] - 1) * 4096)
        opened.write(b"\xff" * 4096)
    refused(run(exit_code=1), "hermes_database_corrupt")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who is kept from writing")
def test_a_home_that_cannot_be_written_is_imported(run, home):
    home.close()
    home.folder.chmod(0o500)
    try:
        run()
    finally:
        home.folder.chmod(0o700)


def test_an_unknown_agent_is_refused(run, home, tmp_path):
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "holdfast.toml").write_text("[agents.fern]\n")
    refused(run("--agent", "main", exit_code=1), "agent_not_found")


# --- a chat goes on


def test_a_chat_of_the_imported_session_is_answered_with_its_history(run, home, tmp_path):
    terminal = HermesChat(platform="http", chat="family", user="ada")
    home.session("s2", terminal)
    home.say("s2", "my cat is called Byron", "Nice.")
    home.route(terminal, "s2")
    run()

    async def go_on():
        async with holdfast.open(tmp_path / "data") as runtime:
            await runtime.ask("family", "What is my cat called?", sender="http:ada")
            found = await runtime.db.read(read_session(SessionId("hermes-s2")))
            return found, await runtime.context(SessionId("hermes-s2"))

    found, shown = asyncio.run(go_on())
    assert (found.live, found.turns) == (True, 2)
    assert [entry.text for entry in shown.entries][:3] == ["my cat is called Byron", "Nice.", "What is my cat called?"]


def test_an_import_that_was_killed_is_resumed(run, home, tmp_path):
    for n in range(30):
        home.session(f"t{n}")
        for turn in range(20):
            home.say(f"t{n}", f"{n} {turn}", "yes")
    command = [sys.executable, "-m", "holdfast", "hermes", "import", str(home.folder), "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as started:
        assert started.stderr is not None
        assert "imported" in started.stderr.readline()
        started.kill()
    report = json.loads(run("--json").stdout)
    states = [one["state"] for one in report["sessions"]]
    assert {"there already", "imported"} <= set(states)
    assert len(states) == 31
    again = json.loads(run("--json").stdout)
    assert {one["state"] for one in again["sessions"]} == {"there already"}
    assert again["digest"] == report["digest"]
