"""The command line as people and scripts meet it: real processes, exit codes, JSON, and no traceback for a mistake.

Rules: D36, D39.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from holdfast.api.auth.operator_token import Token
from holdfast.api.server import bind
from holdfast.cli.chat import TerminalChat
from holdfast.cli.commands import ALIASES, PANELS, app
from holdfast.cli.up import _announce
from holdfast.config import HOST, PORT
from holdfast.kernel.errors import ModelFailed, StoreUnavailable
from holdfast.kernel.ids import MessageId
from holdfast.models.choose import LazyModel
from holdfast.runtime.app import make_agents, open_runtime
from tests.support.live import GatedModel
from tests.support.patience import HANGS_S
from tests.support.warm import BlockingProcess, start_blocking

TOKEN = "a-token-that-only-tests-know-and-nobody-guesses"
POSIX = sys.platform != "win32"
QUIET = {"HOLDFAST_DATA": "", "HOLDFAST_CONFIG": "", "HOLDFAST_TOKEN": "", "NO_COLOR": "1"}


def listed_commands() -> dict[str, Any]:
    """Every command of the program by its name, hidden ones too."""
    found: Any = get_command(app)
    commands: dict[str, Any] = found.commands
    return commands


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in QUIET}
    return {**kept, "PYTHONWARNINGS": "error", **more}


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def holdfast(*arguments: str | Path, stdin: str = "", **env: str) -> Done:
    """A command in a process of its own."""
    with start_blocking(*map(str, arguments), environment=environment(**env)) as process:
        said, errors = process.communicate(stdin, timeout=HANGS_S)
        return Done(process.wait(timeout=HANGS_S), said, errors)


def fresh(*arguments: str | Path, stdin: str = "", **env: str) -> Done:
    """The same command in an interpreter of its own, as people start it."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        input=stdin,
        env=environment(**env),
        check=False,
        timeout=HANGS_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def here(*arguments: str | Path, **env: str) -> Done:
    """The same command in this process, which is quicker where nothing hangs on the process."""
    done = CliRunner().invoke(app, [*map(str, arguments)], env={**dict.fromkeys(QUIET), **env}, prog_name="holdfast")
    return Done(done.exit_code, done.stdout, done.stderr)


def asked(*arguments: str | Path, **env: str):
    """The JSON that a command prints."""
    done = here(*arguments, "--json", **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: Done, code: str, exit_code: int = 1) -> None:
    """A mistake of a person: one error in one form, and nothing of our insides."""
    assert (done.returncode, done.stderr.count("error[")) == (exit_code, 1), done.stderr
    assert done.stderr.startswith(f"error[{code}]: ")
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@contextmanager
def running(data: Path, *more: str, **env: str) -> Iterator[tuple[BlockingProcess, dict[str, object]]]:
    """`holdfast up` on a free port, from its ready line on."""
    arguments = ("up", "--data", str(data), "--port", "0", "--json", *more)
    with start_blocking(*arguments, environment=environment(**env)) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            yield process, json.loads(line)
        finally:
            process.terminate()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a conversation that was compressed once, and its session. Tests only read it."""
    folder = tmp_path_factory.mktemp("cli") / "data"
    for n, text in enumerate(["My cat is called Byron.", "I like tea.", "I like cake."]):
        done = here("send", text, "--data", folder, "--id", str(n), "--wait")
        assert done.returncode == 0, done.stderr
    session = asked("sessions", "--data", folder)["sessions"][0]["id"]
    assert asked("compress", session, "--data", folder)["outcome"] == "done"
    return folder, session


# --- help and versions -----------------------------------------------------------------------------

COMMANDS = ["up", "chat", "send", "trace", "sessions", "show", "context", "compress", "audit", "health", "sim"]
COMMANDS += ["version", "channels"]


def test_help_lists_every_command_in_one_panel():
    done = fresh("--help")
    assert done.returncode == 0
    listed: dict[str, list[str]] = {}
    for heading, command in re.findall(r"^(?:([A-Z][a-z]+):|  ([a-z][a-z-]*)  +\S.*)$", done.stdout, re.MULTILINE):
        if heading:
            listed[panel := heading] = []
        else:
            listed[panel].append(command)
    assert list(listed) == ["Options", "Run", "Talk", "Look", "Memory", "Access", "Repair", "Hermes", "Measure"]
    commands = [name for panel in list(listed)[1:] for name in listed[panel]]
    assert set(COMMANDS) <= set(commands)
    assert sorted(commands) == sorted(name for name, one in listed_commands().items() if not one.hidden)
    assert "..." not in done.stdout.split("Run:")[1]


def test_the_list_says_of_each_command_what_its_own_help_says_first():
    found = listed_commands()
    for panel, commands in PANELS.items():
        for name, listed in commands.items():
            assert (found[name].rich_help_panel, found[name].help.partition("\n")[0]) == (panel, listed.summary), name


@pytest.mark.parametrize(("old", "new"), ALIASES.items())
def test_an_old_name_still_works_and_is_not_listed(old, new):
    found = listed_commands()
    assert (found[old].hidden, found[new].hidden) == (True, False)
    assert f"  {old} " not in here("--help").stdout
    assert here(old, "--help").stdout.replace(f"holdfast {old} ", f"holdfast {new} ") == here(new, "--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example_and_speaks_json(command):
    done = here(command, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert "--json" in done.stdout


def commands_of(group):
    for name, one in group.commands.items():
        yield from commands_of(one) if hasattr(one, "commands") else [(name, one)]


def test_every_command_shows_examples_in_its_help():
    found = dict(commands_of(get_command(app)))
    assert len(found) > 40
    assert [name for name, one in found.items() if "Examples:" not in (one.help or "")] == []


def test_help_needs_nothing_heavy():
    heavy = "{'rich', 'starlette', 'uvicorn', 'apsw', 'httpx', 'msgspec', 'asyncio', 'platformdirs'}"
    code = f"""
import atexit, sys, holdfast.cli
atexit.register(lambda: print(sorted({heavy} & set(sys.modules)), file=sys.stderr))
sys.argv = ["holdfast", "--help"]
holdfast.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert done.stderr.strip() == "[]"


def test_the_version_is_told():
    assert set(asked("version")) == {"holdfast", "python", "sqlite", "library", "system"}
    told = here("--version")
    assert (told.returncode, told.stdout) == (0, f"holdfast {asked('version')['holdfast']}\n")


@pytest.mark.parametrize("wrong", [["nonsense"], ["show"], ["up", "--port", "x"], ["sessions", "--limit", "0"]])
def test_wrong_usage_exits_with_2(wrong):
    done = here(*wrong)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


# --- reading ---------------------------------------------------------------------------------------


def test_a_conversation_can_be_read_back(talked):
    folder, session = talked
    listed = asked("sessions", "--data", folder, "--chat", "terminal")["sessions"]
    assert [(one["id"], one["turns"], one["summaries"]) for one in listed] == [(session, 3, 1)]
    entries = asked("show", session, "--data", folder)["entries"]
    assert [one["message_id"] for one in entries if one["kind"] == "user"] == ["0", "1", "2"]
    assert {one.get("sender") for one in entries} == {"terminal", None}
    assert {(one["chat"], one["address"]) for one in listed} == {("terminal", "agent:main:http:dm:terminal")}
    assert asked("show", session, "--data", folder, "--after", "2", "--limit", "1")["entries"] == entries[2:3]
    context = asked("context", session, "--data", folder)
    assert context["covers_through"] == 4
    assert "Byron" in context["messages"][0]["content"]
    snapshot = asked("show", f"{session}.snapshot.1", "--data", folder)
    assert (snapshot["covers_from"], snapshot["covers_through"]) == (1, 4)


def test_the_same_is_readable_without_json(talked):
    folder, session = talked
    listed = here("sessions", "--data", folder).stdout.splitlines()
    assert (listed[0].split()[2], listed[1].split()[::2][:2]) == ("chat", [session, "terminal"])
    assert "terminal: My cat is called Byron." in here("show", session, "--data", folder).stdout
    assert f"{session}.snapshot.1" in here("show", f"{session}.snapshot.1", "--data", folder).stdout
    assert "Summary of the earlier conversation" in here("context", session, "--data", folder).stdout
    assert "not ok: not_served: no process serves" in here("health", "--data", folder).stdout
    assert "\x1b" not in here("audit", "--data", folder).stdout


def test_the_environment_may_name_the_folder(talked):
    folder, session = talked
    assert asked("sessions", HOLDFAST_DATA=str(folder))["sessions"][0]["id"] == session


def test_health_is_told(talked):
    done = here("health", "--data", talked[0], "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["served"]) == (1, False, False)
    assert isinstance(found["proved_write_ms"], int)


def test_control_characters_of_a_message_do_not_reach_the_terminal(data):
    here("send", "red \x1b[31malert\x07", "--data", data, "--wait")
    session = asked("sessions", "--data", data)["sessions"][0]["id"]
    shown = here("show", session, "--data", data).stdout
    assert "\\x1b[31malert\\x07" in shown
    assert "\x1b" not in shown


# --- sending ---------------------------------------------------------------------------------------


def test_without_a_server_a_message_waits_and_that_is_said(data):
    done = fresh("send", "hello", "--data", data)
    assert done.returncode == 0
    assert "waits until `holdfast up` runs" in done.stdout
    message = done.stdout.split()[1]
    trace = asked("trace", message, "--data", data)
    assert (trace["state"], trace["session"], trace["reply"]) == ("waiting", None, None)
    assert "waiting" in fresh("trace", message, "--data", data).stdout


def test_a_repeated_id_is_a_duplicate_and_another_text_a_conflict(data):
    first = asked("send", "hello", "--id", "7", "--data", data)
    again = asked("send", "hello", "--id", "7", "--data", data)
    assert (first["status"], again["status"]) == ("accepted", "duplicate")
    assert first["message"] == again["message"]
    refused(here("send", "other", "--id", "7", "--data", data), "idempotency_conflict")


def test_the_text_may_come_from_a_pipe(data):
    done = holdfast("send", "-", "--data", data, "--wait", stdin="My cat is called Byron.")
    assert done.stdout.strip() == "Noted: My cat is called Byron."


def test_a_chat_may_be_piped(data):
    done = holdfast("chat", "--data", data, stdin="My cat is called Byron.\n\nWhat is my cat called?\n/title cats\n")
    assert done.returncode == 0, done.stderr
    assert "main> Noted: My cat is called Byron." in done.stdout
    assert "main> You told me: My cat is called Byron." in done.stdout
    assert "cats" in done.stdout
    later = holdfast("chat", "--data", data, stdin="/quit\nnever sent\n")
    assert "you> My cat is called Byron." in later.stdout
    assert len(asked("sessions", "--data", data)["sessions"]) == 1


def test_a_chat_speaks_json_lines(data):
    done = holdfast("chat", "--data", data, "--json", stdin="hello\n/status\n" + "x" * 300_000 + "\n")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("state") for line in lines] == ["answered", "command", None]
    assert lines[2]["error"]["code"] == "message_too_large"
    assert done.returncode == 1


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_piped_line_that_was_not_accepted_is_told_by_the_exit_code(data, more):
    data.mkdir()
    (data / "holdfast.toml").write_text("[agents.ada]\n")
    refused(holdfast("chat", "--agent", "nope", "--data", data, *more, stdin="hi\n"), "agent_not_found")


def test_a_piped_line_that_is_not_utf8_is_refused_and_the_others_are_answered(data):
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "chat", "--data", str(data)],
        capture_output=True,
        input=b"My cat is called \xff\xfe.\nMy dog is called Boatswain.\n",
        env=environment(),
        check=False,
        timeout=HANGS_S,
    )
    assert done.stderr.decode().startswith("error[invalid_unicode]: byte 17 of this line is not UTF-8")
    assert (done.returncode, b"Noted: My dog is called Boatswain." in done.stdout) == (1, True)
    (session,) = asked("sessions", "--data", data)["sessions"]
    assert "cat" not in here("show", session["id"], "--data", data).stdout


# --- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show", "ses_unknown"], "session_not_found"),
        (["show", "ses_unknown.snapshot.1"], "session_not_found"),
        (["show", ""], "invalid_name"),
        (["context", "ses_unknown"], "session_not_found"),
        (["compress", "ses_unknown"], "session_not_found"),
        (["trace", "msg_unknown"], "message_not_found"),
        (["send", ""], "empty_message"),
        (["send", "x" * 300_000, "--chat", "big"], "message_too_large"),
        (["send", "hello", "--agent", "two words"], "invalid_name"),
        (["send", "hello", "--chat", ""], "invalid_name"),
        (["audit", "--log", "/nowhere/at/all"], "invalid_input"),
    ],
)
def test_a_mistake_is_named_without_a_traceback(talked, arguments, code):
    refused(here(*arguments, "--data", talked[0]), code)


def test_with_json_a_mistake_is_json_too(talked):
    done = holdfast("trace", "msg_unknown", "--data", talked[0], "--json")
    refused(done, "message_not_found")
    assert json.loads(done.stdout)["error"]["code"] == "message_not_found"


def test_a_folder_without_data_is_not_made_by_reading(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        refused(here("sessions", "--data", folder), "store_path_invalid")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_data_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    for command in (["send", "hello"], ["up", "--port", "0"], ["sessions"]):
        refused(here(*command, "--data", tmp_path / "file"), "store_path_invalid")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_database_that_is_a_folder_is_refused(tmp_path):
    (tmp_path / "holdfast.db").mkdir()
    refused(here("sessions", "--data", tmp_path), "store_path_invalid")


@pytest.mark.parametrize("command", [["up", "--port", "0"], ["send", "hello"], ["chat"]])
def test_a_wrong_configuration_is_named(data, tmp_path, command):
    (tmp_path / "holdfast.toml").write_text("[agents.main]\nmodel = 'gpt-5'\n")
    done = here(*command, "--data", data, "--config", tmp_path / "holdfast.toml")
    refused(done, "config_invalid")
    assert "agents.main.model" in done.stderr
    assert not data.exists()


def test_the_sessions_of_a_chat_are_those_of_the_first_agent_that_is_configured(data, tmp_path):
    config = tmp_path / "holdfast.toml"
    config.write_text("[agents.ada]\n[agents.bob]\n")
    here("send", "hello", "--chat", "c", "--wait", "--data", data, "--config", config)
    listed = here("sessions", "--chat", "c", "--data", data, "--config", config, "--json")
    assert [one["agent"] for one in json.loads(listed.stdout)["sessions"]] == ["ada"]


def test_with_a_configuration_only_its_agents_exist(data):
    data.mkdir()
    (data / "holdfast.toml").write_text("[agents.ada]\n")
    refused(here("chat", "--data", data, "--agent", "main"), "agent_not_found")
    refused(here("send", "hello", "--data", data, "--agent", "main"), "agent_not_found")
    assert here("send", "hello", "--agent", "ada", "--data", data).returncode == 0


@pytest.mark.parametrize(("agents", "first"), [(("zoe", "ada"), "zoe"), (("ada", "main"), "main")])
def test_without_a_named_agent_a_message_goes_to_main_or_to_the_first_that_is_configured(data, agents, first):
    data.mkdir()
    (data / "holdfast.toml").write_text("".join(f'[agents.{name}]\nmodel = "practice"\n' for name in agents))
    assert here("send", "My cat is called Byron.", "--data", data, "--wait").returncode == 0
    assert here("memory", "add", "Tea, not coffee.", "--data", data).returncode == 0
    assert "Tea" in here("memory", "show", "--agent", first, "--data", data).stdout
    assert "Byron" in here("recall", "cat", "--data", data).stdout
    (session,) = asked("sessions", "--chat", "terminal", "--data", data)["sessions"]
    assert session["agent"] == first


def test_a_newer_database_is_left_as_it_is(data):
    here("send", "hello", "--data", data)
    file = data / "holdfast.db"
    db = apsw.Connection(str(file))
    db.execute("pragma user_version=99")
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()
    before = file.read_bytes()
    for command in (["up", "--port", "0"], ["send", "hello"], ["audit"]):
        refused(here(*command, "--data", data), "store_newer")
    assert file.read_bytes() == before


def test_a_damaged_database_is_left_as_it_is(data):
    data.mkdir(mode=0o700)
    file = data / "holdfast.db"
    file.touch(mode=0o600)
    file.write_bytes(b"this was a database once" * 1_000)
    before = file.read_bytes()
    for command in (["up", "--port", "0"], ["send", "hello"], ["audit"]):
        refused(here(*command, "--data", data), "store_corrupt")
    assert file.read_bytes() == before


# --- the audit -------------------------------------------------------------------------------------


def test_the_audit_holds_after_branches_undos_and_compressions(data):
    lines = ["I like tea.", "I like cake.", "I like pie.", "/compress", "/branch other", "I like figs.", "/compress"]
    lines += ["/undo 3", "I like jam.", "/compress", "/new", "hello", "/delete"]
    assert holdfast("chat", "--data", data, stdin="\n".join(lines) + "\n").returncode == 0
    report = asked("audit", "--data", data, "--log", data / "holdfast.log")
    assert report["ok"] is True
    assert report["first_contradiction"] is None
    assert report["sessions"] == 3
    assert report["summaries"] >= 2
    assert report["log_lines"] >= 2 * report["summaries"]


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        ("update operation set outcome = 'failed' where kind = 'compress'", "summary_has_operation"),
        ("update summary set covers_from = covers_from + 1", "ranges_chain"),
        ("delete from entry where seq = 2", "journal_whole"),
        ("update session set parent_id = 'ses_other'", "lineage_recorded"),
    ],
)
def test_a_contradiction_is_named_and_exits_with_3(talked, tmp_path, damage, check):
    folder, session = talked
    copy = tmp_path / "data"
    copy.mkdir()
    apsw.Connection(str(folder / "holdfast.db")).execute("vacuum into ?", [str(copy / "holdfast.db")])
    apsw.Connection(str(copy / "holdfast.db")).execute(damage)
    done = here("audit", "--data", copy, "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["first_contradiction"]["session"] == session
    shown = here("audit", "--data", copy)
    assert shown.returncode == 3
    assert check in shown.stdout


# --- up --------------------------------------------------------------------------------------------


def test_up_serves_and_others_work_beside_it(data):
    with running(data, HOLDFAST_TOKEN=TOKEN) as (process, ready):
        assert ready["event"] == "ready"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=str(ready["url"]), headers=headers, trust_env=False) as client:
            assert client.get("/healthz").json()["ok"] is True
            body = {"chat": "terminal", "id": "1", "text": "My cat is called Byron."}
            assert client.post("/v1/messages", json=body).status_code == 202
        refused(here("up", "--data", data, "--port", "0"), "store_owned")
        done = here("send", "What is my cat called?", "--data", data, "--wait")
        assert done.stdout.strip() == "You told me: My cat is called Byron."
        assert "waits until" not in here("send", "hello", "--data", data).stdout
        (session,) = asked("sessions", "--data", data)["sessions"]
        assert asked("compress", session["id"], "--data", data)["outcome"] == "done"
        piped = holdfast("chat", "--data", data, stdin="What is my cat called?\n")
        assert "answered by the process that serves this data folder" in piped.stdout
        assert "Byron" in piped.stdout.splitlines()[-1]
        assert asked("audit", "--data", data)["ok"] is True
        process.terminate()
        assert process.wait(timeout=HANGS_S) == (0 if POSIX else process.returncode)
    assert not (data / "token").exists()


def test_a_token_is_made_and_only_its_place_is_told(data):
    with running(data) as (process, ready):
        token = (data / "token").read_text().strip()
        assert ready["token_file"] == str(data / "token")
        assert token not in json.dumps(ready)
        url = str(ready["url"])
        assert httpx.get(f"{url}/v1/sessions", trust_env=False).status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}/v1/sessions", headers=headers, trust_env=False).status_code == 200
        process.terminate()
        process.wait(timeout=HANGS_S)


def test_the_log_is_private_structured_and_without_peoples_words(data):
    with running(data, HOLDFAST_TOKEN=TOKEN) as (process, ready):
        body = {"chat": "secret-chat", "id": "1", "text": "My cat is called Byron."}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        httpx.post(f"{ready['url']}/v1/messages", json=body, headers=headers, trust_env=False)
        httpx.get(f"{ready['url']}/v1/sessions", headers={"Authorization": "Bearer wrong"}, trust_env=False)
        assert here("send", "hello", "--data", data, "--chat", "secret-chat", "--wait").returncode == 0
        process.terminate()
        process.wait(timeout=HANGS_S)
    log = (data / "holdfast.log").read_text(encoding="utf-8")
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert {"runtime.opened", "accept.accepted", "turn.committed", "auth.refused", "runtime.closed"} <= set(events)
    assert "Byron" not in log
    assert TOKEN not in log
    if POSIX:
        assert (data / "holdfast.log").stat().st_mode & 0o077 == 0


def test_verbose_logs_to_stderr(data):
    with running(data, "--verbose") as (process, _):
        process.terminate()
        _, errors = process.communicate(timeout=HANGS_S)
    assert "runtime.opened" in errors
    assert not (data / "holdfast.log").exists()


def test_a_port_in_use_is_said(data):
    with bind("127.0.0.1", 0) as taken:
        refused(here("up", "--data", data, "--port", str(taken.getsockname()[1])), "port_in_use")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.com"])
def test_a_public_address_is_refused(data, host):
    refused(here("up", "--data", data, "--port", "0", "--host", host), "public_bind_refused")


@pytest.mark.parametrize(
    ("more", "env", "named"),
    [
        (["--public-host", "chat.example.org"], {}, "no token was chosen"),
        ([], {"HOLDFAST_TOKEN": TOKEN}, "--public-host is missing"),
    ],
)
def test_a_public_address_needs_a_chosen_token_and_a_name(data, more, env, named):
    done = here("up", "--data", data, "--port", "0", "--host", "0.0.0.0", *more, **env)
    refused(done, "public_bind_refused")
    assert named in done.stderr


def test_a_token_that_can_be_guessed_is_refused_where_others_can_try_it(data):
    more = ("--data", data, "--port", "0", "--host", "0.0.0.0", "--public-host", "x")
    done = here("up", *more, HOLDFAST_TOKEN="a" * 31)
    refused(done, "token_too_short")
    assert "HOLDFAST_TOKEN has 31 characters; 32 are needed" in done.stderr
    assert "openssl rand -hex 32" in done.stderr
    (data / "token").touch(mode=0o600)
    (data / "token").write_text("b" * 31 + "\n")
    asked("token", "new", "--scope", "read", "--data", data)  # somebody has chosen one, so the door may be opened
    refused(here("up", *more), "token_too_short")


def test_a_token_is_made_used_and_revoked_while_up_runs(data):
    with running(data, "--host", "0.0.0.0", "--public-host", "chat.example.org", HOLDFAST_TOKEN=TOKEN) as (_, ready):
        made = asked("token", "new", "--scope", "read", "--agent", "main", "--label", "web", "--data", data)
        url = str(ready["url"]).replace("0.0.0.0", "127.0.0.1")
        headers = {"Authorization": f"Bearer {made['secret']}", "Host": "chat.example.org"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
            assert client.get("/v1/sessions").status_code == 200
            (listed,) = asked("token", "list", "--data", data)["tokens"]
            assert (listed["scopes"], listed["agents"], listed["label"]) == (["read"], ["main"], "web")
            assert made["secret"] not in here("token", "list", "--data", data).stdout
            assert asked("token", "revoke", made["token"], "--yes", "--data", data)["revoked_at"] is not None
            while client.get("/v1/sessions").status_code != 401:  # within a second: pytest's own limit is the test
                pass
    refused(here("token", "revoke", "tok_never", "--data", data), "confirmation_required", exit_code=2)
    refused(here("token", "revoke", "tok_never", "--data", data, "--yes"), "token_not_found")
    assert here("token", "new", "--scope", "root", "--data", data).returncode == 2


@pytest.mark.parametrize(
    ("config", "hints"),
    [
        ("", ["`holdfast chat`", '-d \'{"chat"']),
        ("[agents.ada]\n", ["`holdfast chat --agent ada`", '{"agent": "ada", ']),
    ],
    ids=["without a file", "without an agent main"],
)
def test_up_tells_people_what_to_do_next(data, config, hints):
    if config:
        data.mkdir()
        (data / "holdfast.toml").write_text(config)
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "--data", str(data), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not (lines and lines[-1].startswith("ready")):
            lines.append(process.stdout.readline())
            assert lines[-1]
        process.terminate()
    said = "".join(lines)
    for word in (str(data), "practice", "chat     http://127.0.0.1:", "curl http://127.0.0.1:", *hints):
        assert word in said
    assert (data / "token").read_text().strip() not in said
    assert "#code=" not in said, "it gives access to anyone who has it"


def test_up_shows_the_token_and_a_link_that_lets_in_on_a_terminal_only(tmp_path, monkeypatch, capsys):
    token = Token("5ecret" * 6, tmp_path / "token")
    known = {"url": "http://127.0.0.1:7420", "code": "1code", "model": "practice", "agent": "main"}
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=is_terminal: is_terminal)
        _announce(tmp_path, token, as_json=False, **known)
        said = capsys.readouterr().out
        assert [word in said for word in ("5ecret", "http://127.0.0.1:7420/#code=1code")] == [is_terminal] * 2


def test_the_port_that_people_know_is_the_one_unless_said():
    assert (HOST, PORT) == ("127.0.0.1", 7420)


@pytest.mark.skipif(not POSIX, reason="an open file cannot be moved on Windows")
def test_a_store_that_breaks_ends_the_process_with_70(data):
    with running(data) as (process, _):
        (data / "holdfast.db").rename(data / "moved.db")
        assert process.wait(timeout=HANGS_S) == 70
        assert process.stderr is not None
        errors = process.stderr.read()
    assert errors.startswith("error[store_broken]: ")
    assert "Traceback" not in errors
    assert "store.broken" in (data / "holdfast.log").read_text()


@pytest.mark.skipif(not POSIX, reason="kill -9")
def test_a_killed_process_is_succeeded_at_once(data):
    with running(data, HOLDFAST_TOKEN=TOKEN) as (process, _):
        process.kill()
        process.wait(timeout=HANGS_S)
    with running(data, HOLDFAST_TOKEN=TOKEN) as (process, ready):
        assert httpx.get(f"{ready['url']}/healthz", trust_env=False).json()["ok"] is True
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=HANGS_S) == 0


async def test_ctrl_c_stops_the_running_turn_once_and_then_leaves(data, capsys):
    model = GatedModel()
    async with await open_runtime(data, agents=make_agents(model=model)) as runtime:
        talk = TerminalChat(runtime, "main", "terminal", as_json=True)
        printing = asyncio.create_task(talk.answer())
        await talk._send("hello")
        await model.asked.wait()
        feed = runtime.events()
        talk.interrupt()
        while (await anext(feed)).name != "turn.interrupted":
            pass
        feed.close()
        talk.interrupt()
        await printing
    assert json.loads(capsys.readouterr().out)["state"] == "interrupted"


@pytest.mark.skipif(not POSIX, reason="an interrupt to one process alone")
async def test_a_person_who_stops_waiting_for_a_reply_is_told_where_to_ask_for_it(data):
    model = GatedModel()
    async with await open_runtime(data, agents=make_agents(model=model)) as runtime:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "send", "hello", "--data", str(data), "--wait"),
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the test runner may ignore it
        )
        await model.asked.wait()
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        (session,) = await runtime.sessions()
        message = MessageId(errors.decode().split()[0])
        assert (await runtime.trace(message)).session == session.id
    assert f"`holdfast trace {message}`" in errors.decode()
    assert (process.returncode, b"Traceback" in errors) == (130, False)


def test_the_libraries_of_the_models_are_loaded_before_it_listens(data, monkeypatch):
    told = []

    async def load(_model):
        told.append("loaded")

    async def listen(*_):
        told.append("listens")
        raise StoreUnavailable("the test has seen enough")

    monkeypatch.setattr(LazyModel, "load", load)
    monkeypatch.setattr("holdfast.cli.up._server", listen)
    done = here("up", "--data", data, "--port", "0", OPENAI_API_KEY="sk-of-nobody")
    assert "seen enough" in done.stderr
    assert told == ["loaded", "listens"]


def test_a_model_that_cannot_be_loaded_is_a_warning(data, monkeypatch):
    async def load(_model):
        raise ModelFailed("its library is broken")

    async def listen(*_):
        raise StoreUnavailable("the test has seen enough")

    monkeypatch.setattr(LazyModel, "load", load)
    monkeypatch.setattr("holdfast.cli.up._server", listen)
    done = here("up", "--data", data, "--port", "0", OPENAI_API_KEY="sk-of-nobody")
    assert "its library is broken" in done.stderr
    assert "seen enough" in done.stderr, "other agents serve"


def test_the_server_runs_on_uvloop_if_it_is_asked_to(data):
    with running(data, HOLDFAST_EVENT_LOOP="uvloop", HOLDFAST_TOKEN=TOKEN) as (process, ready):
        loaded = Path(f"/proc/{process.pid}/maps").read_text() if Path("/proc/self/maps").exists() else "uvloop"
        answer = httpx.post(
            f"{ready['url']}/v1/messages",
            json={"chat": "ada", "id": "1", "text": "hello"},
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=HANGS_S,
        )
    assert "uvloop" in loaded
    assert answer.is_success, answer.text


def test_an_event_loop_that_does_not_exist_is_refused(data):
    refused(holdfast("sessions", "--data", data, HOLDFAST_EVENT_LOOP="libevent"), "config_invalid")


# --- a terminal ------------------------------------------------------------------------------------


@pytest.mark.skipif(not POSIX, reason="pseudo terminals")
def test_a_conversation_at_a_terminal_ends_with_ctrl_c(data):
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "chat", "--data", str(data)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="dumb"),
        start_new_session=True,
    )
    os.close(theirs)
    seen = ""

    def read_until(text: str) -> None:
        nonlocal seen
        while text not in seen:
            seen += os.read(ours, 4096).decode()
        seen = seen.split(text, 1)[1]

    try:
        read_until("you> ")
        os.write(ours, b"My cat is called Byron.\n")
        read_until("main> Noted: My cat is called Byron.")
        read_until("you> ")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=HANGS_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
