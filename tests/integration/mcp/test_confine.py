"""How an MCP program is confined: never less than was asked for, and what is in force is said."""

import json
import os
import signal
import subprocess
import sys

import pytest

from holdfast.config import parse_config
from holdfast.core.errors import ConfigInvalid
from holdfast.inspection import inspect
from holdfast.tools.mcp import confine
from holdfast.tools.mcp import settings as settings_module
from holdfast.tools.mcp.settings import read_settings

KEY = "agents.a.mcp.t"
ORDER = {"keep": ["PATH"], "umask": 0o027, "landlock": True, "deny": [], "allow": []}


def read(**table):
    return read_settings(KEY, "t", {"command": [sys.executable], **table}, {})


def run(order: dict[str, object], code: str) -> subprocess.CompletedProcess[str]:
    """A program behind the step that confines it, as a server is started."""
    words = [sys.executable, "-I", "-S", confine.__file__, json.dumps({**ORDER, **order}), sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_a_program_is_confined_unless_the_configuration_says_otherwise():
    assert (read().confinement, read(confine="landlock").confinement) == ("landlock", "landlock")
    assert read(confine="none").confinement == "none"
    assert read_settings(KEY, "t", {"url": "https://a.example"}, {}).confinement == ""


def test_where_the_system_cannot_confine_it_is_said_or_refused(monkeypatch):
    monkeypatch.setattr(settings_module, "landlock_version", lambda: 0)
    assert read().confinement == "none"
    with pytest.raises(ConfigInvalid, match="this system has no Landlock"):
        read(confine="landlock")


def test_a_confinement_that_fails_keeps_the_program_from_being_started(monkeypatch):
    started = []
    monkeypatch.setattr(confine, "landlock_version", lambda: 0)
    monkeypatch.setattr(os, "execve", lambda *words: started.append(words))
    monkeypatch.setattr(os, "umask", lambda mask: mask)
    with pytest.raises(confine.Refused, match="no Landlock"):
        confine.become(ORDER, ["/bin/true"])
    assert started == []


def test_a_program_that_cannot_be_started_says_so_and_shows_no_traceback():
    words = [sys.executable, "-I", "-S", confine.__file__, json.dumps(ORDER), "/no/such/program"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        127,
        "holdfast: /no/such/program could not be started: No such file or directory\n",
    )


def test_what_is_beside_a_denied_place_is_allowed_and_links_lead_nowhere(tmp_path):
    denied, other = tmp_path / "a" / "data", tmp_path / "a" / "other"
    own = denied / "mcp" / "own"
    own.mkdir(parents=True)
    other.mkdir()
    for file in (denied / "secret", other / "plain", own / "mine"):
        file.write_text(file.name)
    (tmp_path / "link").symlink_to(denied)
    paths = [denied / "secret", tmp_path / "link" / "secret", other / "plain", own / "mine"]
    code = f"""
for path in {[str(path) for path in paths]!r}:
    try:
        print(open(path).read())
    except PermissionError:
        print("denied")
try:
    open({str(denied / "new")!r}, "w")
except PermissionError:
    print("denied")
open({str(other / "new")!r}, "w")
"""
    done = run({"deny": [str(tmp_path / "link")], "allow": [str(own)]}, code)
    assert (done.stdout.split(), done.stderr) == (["denied", "denied", "plain", "mine", "denied"], "")
    assert (other / "new").stat().st_mode & 0o777 == 0o640  # the umask of whoever started Holdfast


def test_a_confined_program_cannot_signal_a_process_outside():
    code = f"""
import os
try:
    os.kill({os.getpid()}, 0)
    print("signalled")
except PermissionError:
    print("denied")
print(sorted(os.environ))
"""
    done = run({}, code)
    is_scoped = confine.landlock_version() >= confine.SCOPED_SINCE
    said, names = done.stdout.splitlines()
    assert said == ("denied" if is_scoped else "signalled")
    assert ("PATH" in names, "HOME" in names) == (True, False)


def test_a_confined_program_gains_no_rights_and_ignores_no_signal():
    words = [sys.executable, "-I", "-S", confine.__file__, json.dumps(ORDER), "/bin/cat", "/proc/self/status"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    status = dict(line.split(":\t", 1) for line in done.stdout.splitlines())
    assert status["NoNewPrivs"] == "1"
    kept = sum(1 << one for one in confine.ROOT_KEEPS)
    assert [int(status[kind], 16) & ~kept for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
    assert not int(status["SigIgn"], 16) & 1 << signal.SIGPIPE - 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"confine": "chroot"}, "Invalid enum value 'chroot'"),
        ({"folder": "here"}, "it must be the whole path of a folder that exists"),
        ({"folder": "/no/such/folder"}, "it must be the whole path of a folder that exists"),
    ],
)
def test_a_wrong_setting_is_refused(table, said):
    with pytest.raises(ConfigInvalid, match=said):
        read(**table)


def test_confinement_is_for_programs():
    with pytest.raises(ConfigInvalid, match="are for servers with a `command`"):
        read_settings(KEY, "t", {"url": "https://a.example", "confine": "none"}, {})


async def test_config_check_says_what_is_not_confined_and_what_is_not_found_any_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text("")
    (tmp_path / "key").write_text("hush")
    (tmp_path / "key").chmod(0o640)
    file = tmp_path / "holdfast.toml"
    command = f'command = ["{sys.executable}", "server.py"]'
    config = parse_config(
        f"""
        [agents.a]
        model = {{ name = "openai:m", api_key_file = "key" }}
        [agents.a.mcp.open]
        {command}
        confine = "none"
        folder = "{tmp_path}"
        [agents.a.mcp.moved]
        {command}
        """.encode(),
        file,
    )
    found = await inspect(config, tmp_path / "data", {})
    unconfined, moved, secret = (note for note in found.notes)
    assert unconfined.startswith("agents.a.mcp.open: the program is not confined")
    assert moved.startswith("agents.a.mcp.moved.command: 'server.py' is not found")
    assert (secret.startswith("agents.a.model.api_key_file: others may read"), "0640" in secret) == (True, True)
    assert found.ok
