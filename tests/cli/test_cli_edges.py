"""The command line at its edges: streams that are not there, places that cannot be, and a reply that never comes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import terminal as terminal_module
from holdfast.cli.chat import TerminalChat
from holdfast.cli.terminal import Keyboard
from holdfast.kernel.errors import MessageTooLarge, StorePathInvalid
from holdfast.runtime.app import make_agents, open_runtime
from tests.cli.test_cli import POSIX, asked, environment, here, holdfast, refused
from tests.support.live import GatedModel
from tests.support.patience import HANGS_S, within

NOBODY = "~nobody-of-this-name/x"


# --- streams ---------------------------------------------------------------------------------------


def started_without(stream: str, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    closed = {"stdin": "<&-", "stdout": ">&-"}[stream]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "holdfast", *map(str, arguments)]
    return subprocess.run(shell, capture_output=True, env=environment(), check=False, timeout=HANGS_S)


@pytest.mark.skipif(not POSIX, reason="a shell that closes descriptors")
@pytest.mark.parametrize(
    ("stream", "arguments", "code", "said"),
    [
        ("stdout", ["sessions"], 0, b""),
        ("stdin", ["forget", "--person", "ada"], 2, b"error[confirmation_required]"),
        ("stdin", ["send", "-"], 1, b"error[empty_message]"),
    ],
)
def test_a_process_without_a_stream_does_what_it_can(tmp_path, stream, arguments, code, said):
    here("send", "hello", "--data", tmp_path)
    done = started_without(stream, *arguments, "--data", tmp_path)
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
    assert said in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_output_that_has_no_room_is_an_error_that_says_so(tmp_path, more):
    here("send", "hello", "--data", tmp_path)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "sessions", "--data", str(tmp_path), *more],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(PYTHONUNBUFFERED=""),
            check=False,
            timeout=HANGS_S,
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 2), done.stderr
    assert b"error[no_room]: there is no room left" in done.stderr


@pytest.mark.skipif(not POSIX, reason="arguments that are bytes")
@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("command", [("trace",), ("sessions", "--agent"), ("send", "hello", "--chat")])
def test_an_argument_that_is_no_text_is_refused(tmp_path, command, more):
    shell = [sys.executable, "-m", "holdfast", *command, b"msg_\xff", "--data", str(tmp_path), *more]
    done = subprocess.run(shell, capture_output=True, env=environment(), check=False, timeout=HANGS_S)
    assert done.stderr.startswith(b"error[invalid_unicode]: the argument 'msg_\\udcff' is not UTF-8\n"), done.stderr
    assert (done.returncode, b'"invalid_unicode"' in done.stdout) == (2, bool(more))


def test_a_terminal_that_lacks_a_letter_is_shown_its_number_and_a_program_gets_json(tmp_path):
    say = ("send", "a heron: \N{GRINNING FACE}", "--data", tmp_path, "--id", "1", "--wait")
    shown = holdfast(*say, PYTHONIOENCODING="ascii")
    assert (shown.returncode, "\\U0001f600" in shown.stdout) == (0, True), shown.stderr
    read = json.loads(holdfast(*say, "--json", PYTHONIOENCODING="ascii").stdout)
    assert "\N{GRINNING FACE}" in read["reply"]["text"]


def test_bytes_that_are_no_text_are_refused_on_stdin(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "send", "-", "--data", str(tmp_path)],
        capture_output=True,
        input=b"My cat is called \xff.",
        env=environment(PYTHONIOENCODING="utf-8:strict"),
        check=False,
        timeout=HANGS_S,
    )
    assert done.stderr.startswith(b"error[invalid_unicode]"), done.stderr
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)


async def test_a_line_that_is_too_long_takes_no_other_line_with_it(monkeypatch):
    monkeypatch.setattr(terminal_module, "LINE_BYTES_MAX", 10)
    monkeypatch.setattr(terminal_module, "CHUNK_BYTES", 4)
    ours, theirs = os.pipe()
    os.write(theirs, b"one\n" + b"x" * 40 + b"\ntwo\n" + b"y" * 11)
    os.close(theirs)
    with os.fdopen(ours) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        keyboard = Keyboard()
        assert await keyboard.next_line() == "one"
        with pytest.raises(MessageTooLarge):
            await keyboard.next_line()
        assert await keyboard.next_line() == "two"
        with pytest.raises(MessageTooLarge):
            await keyboard.next_line()
        assert await keyboard.next_line() is None


# --- places ----------------------------------------------------------------------------------------


SCHEMES = ("postgresql", "postgres", "postgresql+asyncpg", "mysql", "sqlite", "file")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_database_is_no_data_folder_and_its_password_is_not_repeated(tmp_path, monkeypatch, scheme):
    """It used to be made into a folder of that name, and the message was accepted there."""
    monkeypatch.chdir(tmp_path)
    address = f"{scheme}://ada:s3same@db.example.org/chat"
    for command in (["send", "hello"], ["sessions"], ["init"], ["up"]):
        for done in (here(*command, "--data", address), here(*command, HOLDFAST_DATA=address)):
            refused(done, "store_path_invalid")
            assert "s3same" not in done.stderr + done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_an_address_that_was_made_a_path_opens_no_folder(tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorePathInvalid):
        await open_runtime(Path(f"{scheme}://db.example.org/chat"))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_home_folder_is_a_mistake_like_others(tmp_path):
    refused(here("health", "--data", NOBODY), "invalid_input")
    refused(here("memory", "import", NOBODY, "--data", tmp_path / "data"), "invalid_input")


@pytest.mark.parametrize("path", [NOBODY, "a\\u0000b"])
@pytest.mark.parametrize(
    "table",
    [
        '[agents.main]\nmodel = {{name = "openai:gpt-5.2", api_key_file = "{path}"}}\n',
        '[agents.main.channels.telegram]\ntoken_file = "{path}"\n',
    ],
)
def test_a_secret_in_a_file_that_cannot_be_is_named_by_its_key(tmp_path, monkeypatch, table, path):
    monkeypatch.chdir(tmp_path)
    Path("holdfast.toml").write_text(table.format(path=path))
    for config in (Path("holdfast.toml"), tmp_path / "holdfast.toml"):
        done = here("config", "check", "--config", config, "--data", tmp_path)
        assert (done.returncode, done.stderr.count("error[config_invalid]")) == (1, 1), done.stderr
        assert "_file" in done.stderr


def test_a_secret_where_its_name_belongs_is_not_shown(tmp_path):
    (tmp_path / "holdfast.toml").write_text('[agents.main.channels.telegram]\ntoken_env = "123456:s3same"\n')
    for more in ([], ["--json"]):
        done = here("config", "check", "--data", tmp_path, *more)
        assert done.returncode == 1
        assert "s3same" not in done.stdout + done.stderr


def test_a_second_replacement_of_the_configuration_keeps_the_first(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text("# mine\n[agents.ada]\n")
    first = asked("init", "--force", "--data", tmp_path)["kept"]
    second = asked("init", "--force", "--data", tmp_path)["kept"]
    assert first != second
    assert Path(first).read_text() == "# mine\n[agents.ada]\n"


# --- leaving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [True, False])
async def test_repeated_interrupts_leave_a_chat_that_gets_no_reply(tmp_path, as_json):
    """The process that served the folder is gone: neither a reply nor the end of a turn ever comes."""
    async with await open_runtime(tmp_path, agents=make_agents(model=GatedModel()), serve=False) as runtime:
        talk = TerminalChat(runtime, "main", "terminal", as_json=as_json)
        printing = asyncio.create_task(talk.answer())
        await talk._send("hello")
        for _ in range(4):
            talk.interrupt()
            await asyncio.sleep(0)
        async with within(20):
            await printing
