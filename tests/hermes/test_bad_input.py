"""A home that is not as Hermes leaves it: each command says in one form what is wrong, and the home keeps every byte.

What needs Hermes itself or another process is tested beside its subject: a half-installed plugin, another provider and
a home that cannot be written in test_install.py, two homes in one process in test_provider.py, a log of mixed encodings
in test_doctor_log.py, a database that another process has open in test_doctor_repair.py.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from tests.hermes.test_doctor import digests
from tests.hermes.test_doctor_repair import damage_page
from tests.support.hermes_home import HermesChat, HermesHome

CHAT = HermesChat()
UNEXPECTED = 70  # the exit code of an error that nobody foresaw


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nobody")

    def call(*arguments):
        done = CliRunner().invoke(app, ["hermes", *map(str, arguments)], env={"HERMES_HOME": None})
        assert done.exit_code != UNEXPECTED, done.output
        assert "Traceback" not in done.output
        return done

    return call


def made(folder):
    """A home with a turn, a tool, a routed chat and a note."""
    home = HermesHome(folder / "home")
    home.session("s1", CHAT)
    home.say("s1", "hello", "hi")
    home.use_tool("s1", "c1", "weather", {}, "rain")
    home.route(CHAT, "s1")
    home.remember(memory=["tea"])
    return home


def commands(home, folder):
    """Every command that reads a home without Hermes."""
    data = folder / "data"
    return {
        "doctor": ("doctor", home.folder),
        "doctor --providers": ("doctor", home.folder, "--providers"),
        "repair": ("repair", home.folder, "--dry-run"),
        "repair in place": ("repair", home.folder, "--in-place", "--yes"),
        "import": ("import", home.folder, "--data", data),
    }


def refusals(run, home, folder):
    """The code of the error of each command, which is none for a command that does its work. Nothing is changed."""
    home.close()
    before, found = digests(home.folder), {}
    for name, command in commands(home, folder).items():
        done = run(*command)
        found[name] = done.stderr.partition("[")[2].partition("]")[0] if done.exit_code == 1 else ""
        assert not found[name] or "hint:" in done.stderr
        assert digests(home.folder) == before, name
        assert not found[name] or not (folder / "data").exists(), name
    return found


ALL = ("doctor", "doctor --providers", "repair", "repair in place", "import")


@pytest.mark.parametrize("schema", [9, 23, "abc", None, 22.5])
def test_a_schema_of_another_time(run, tmp_path, schema):
    home = made(tmp_path)
    home.db.execute("update schema_version set version = ?", (schema,)) if schema else home.db.execute(
        "delete from schema_version"
    )
    assert refusals(run, home, tmp_path) == dict.fromkeys(ALL, "hermes_schema_unknown")


@pytest.mark.parametrize("table", ["sessions", "messages"])
def test_a_corrupt_page(run, tmp_path, table):
    home = made(tmp_path)
    home.close()
    damage_page(home.state, table)
    assert refusals(run, home, tmp_path) == dict.fromkeys(ALL, "hermes_database_corrupt")


@pytest.mark.parametrize("size", [50, 5_000])
def test_a_database_that_was_cut_off(run, tmp_path, size):
    home = made(tmp_path)
    home.close()
    os.truncate(home.state, size)
    assert set(refusals(run, home, tmp_path).values()) == {"hermes_database_corrupt"}


def test_a_folder_in_the_place_of_the_database(run, tmp_path):
    home = made(tmp_path)
    home.close()
    for file in home.folder.glob("state.db*"):
        file.unlink()
    home.state.mkdir()
    assert refusals(run, home, tmp_path) == dict.fromkeys(ALL, "hermes_database_missing")


def test_a_running_hermes_is_examined_and_imported_and_not_repaired(run, tmp_path):
    home = made(tmp_path)
    (home.folder / "gateway.pid").write_text(json.dumps({"pid": os.getpid(), "kind": "hermes-gateway"}))
    assert refusals(run, home, tmp_path) == dict.fromkeys(ALL, "") | {
        "repair": "hermes_running",
        "repair in place": "hermes_running",
    }


@pytest.mark.parametrize("body", ["{", "[]", "\xff"])
def test_settings_of_a_provider_that_are_no_object(run, tmp_path, body):
    home = made(tmp_path)
    (home.folder / "honcho.json").write_text(body, encoding="latin-1")
    assert refusals(run, home, tmp_path) == dict.fromkeys(ALL, "") | {"doctor --providers": "config_invalid"}


@pytest.mark.parametrize(("name", "module"), [("hindsight", "hindsight_client"), ("honcho", "honcho")])
def test_a_client_library_that_is_missing(run, tmp_path, monkeypatch, name, module):
    """The doctor says that it could not ask; an import that would have to guess does not begin."""
    home = made(tmp_path)
    home.close()
    (home.folder / "hindsight").mkdir()
    (home.folder / "hindsight" / "config.json").write_text(
        '{"mode": "local_external", "api_url": "http://127.0.0.1:9"}'
    )
    (home.folder / "honcho.json").write_text('{"baseUrl": "http://127.0.0.1:9", "workspace": "hermes"}')
    for loaded in [one for one in sys.modules if one.startswith((module, f"holdfast.providers.{name}.client"))]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    before = digests(home.folder)
    told = run("doctor", home.folder, "--providers").stdout
    assert f"{name}: the client library is not installed ({module}); install holdfast[{name}]" in told
    config = tmp_path / "holdfast.toml"
    config.write_text(f'[agents.main.memory.{name}]\nurl = "http://127.0.0.1:9"\n')
    done = run("import", home.folder, "--data", tmp_path / "data", "--config", config)
    assert (done.exit_code, f"install holdfast[{name}]" in done.stderr) == (1, True)
    assert digests(home.folder) == before


def test_a_spool_of_a_newer_version_and_a_half_installed_plugin_keep_nobody_from_reading(run, tmp_path):
    home = made(tmp_path)
    (home.folder / "holdfast" / "spool").mkdir(parents=True)
    (home.folder / "holdfast" / "spool" / "x.spool").write_bytes(b"holdfast-spool 9\n")
    (home.folder / "plugins" / "holdfast").mkdir(parents=True)
    (home.folder / "plugins" / "holdfast" / "__init__.py").write_text("")
    assert refusals(run, home, tmp_path) == dict.fromkeys(ALL, "")


# --- values that no release of Hermes writes, but a tool may

ODD = {
    "a beginning that is no time": "update sessions set started_at = 'abc', ended_at = 'abc'",
    "a message without a time": "update messages set timestamp = 'abc'",
    "content as bytes": "update messages set content = x'ff00fe'",
    "content as a number": "update messages set content = 17",
    "a role as bytes": "update messages set role = x'ff'",
    "calls that are no JSON": "update messages set tool_calls = '{{'",
    "calls as bytes": "update messages set tool_calls = x'ff', tool_name = x'ff', tool_call_id = x'fe'",
    "ids as bytes": "update messages set platform_message_id = x'ff'",
    "a flag that is no number": "update messages set active = 'no'",
    "a configuration that is a list": "update sessions set model_config = '[1]', origin_json = '[1]'",
    "an origin with parts": 'update sessions set origin_json = \'{"chat_id": {"a": 1}}\'',
    "names as bytes": "update sessions set title = x'ff', user_id = x'ff', session_key = x'fe', model_config = x'ff'",
    "names as numbers": "update sessions set title = 3, user_id = 3, chat_id = 4, session_key = 5, end_reason = 6",
    "a route that is no JSON": "update gateway_routing set entry_json = 'nope', updated_at = 'x'",
    "a route as bytes": "update gateway_routing set entry_json = x'ff', scope = x'fe'",
    "a route to a number": "update gateway_routing set entry_json = '{\"session_id\": 5}'",
    "a lock without times": "insert into compression_locks values ('s1', 5, 'a', 'b')",
}
FILES: dict[str, list[bytes | None]] = {
    "sessions/sessions.json": [b"[1]", b'{"k": 5, "l": {"session_id": []}}', b"\xff", None],
    "sessions/session_s1.json": [b"[]", b'{"messages": [1, {"role": 5}, {"role": "user", "content": {"a": 1}}]}', None],
    "sessions/zz.jsonl": [b'[]\n5\n{"role": "user"}\n\xff', None],
    "config.yaml": [b"\xff\xfe\x00", None],
    "memories/MEMORY.md": [b"\xff\xfe\x00", None],
    "gateway.pid": [b'{"pid": "x"}', b"[1]", b'{"pid": 99999999999999999999}', None],
    "logs/agent.log": [bytes(range(256)), None],
    ".env": [b"\xff=\xfe\n", None],
    "state.db-wal": [b"junk" * 100],
}


@pytest.mark.parametrize("statement", ODD.values(), ids=ODD)
def test_odd_values_of_the_database(run, tmp_path, statement):
    home = made(tmp_path)
    home.db.execute(statement)
    home.close()
    before = digests(home.folder)
    for name in ("doctor", "repair", "import"):
        run(*commands(home, tmp_path)[name])
    assert digests(home.folder) == before


@pytest.mark.parametrize(("file", "body"), [(file, body) for file, bodies in FILES.items() for body in bodies])
def test_odd_files_beside_the_database(run, tmp_path, file, body):
    """Another content, or a folder in the place of the file."""
    home = made(tmp_path)
    home.close()
    path = home.folder / file
    path.unlink(missing_ok=True)
    path.mkdir() if body is None else path.write_bytes(body)
    before = digests(home.folder)
    for name in ("doctor", "repair", "import"):
        run(*commands(home, tmp_path)[name])
    assert digests(home.folder) == before
