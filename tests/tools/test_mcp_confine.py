"""An MCP program is never confined less than was asked for, and the confinement in force is shown."""

import json
import os
import signal
import subprocess
import sys

import pytest

from holdfast.config import parse_config
from holdfast.kernel.errors import ConfigInvalid
from holdfast.runtime.inspection import Inspector
from holdfast.tools.mcp import confinement, launcher
from holdfast.tools.mcp.settings import read_settings
from tests.security.spying import need_landlock

KEY = "agents.a.mcp.t"
ORDER = {
    "keep": ["PATH"],
    "umask": 0o027,
    "user": None,
    "folders": [],
    "confined": True,
    "landlock": True,
    "deny": [],
    "allow": [],
}


@pytest.fixture(autouse=True)
def landlock():
    need_landlock()


def read(**table):
    return read_settings(KEY, "t", {"command": [sys.executable], **table}, {})


def run(order: dict[str, object], code: str) -> subprocess.CompletedProcess[str]:
    """A program behind the step that confines it, as a server is started."""
    words = [sys.executable, "-I", "-S", launcher.__file__, json.dumps({**ORDER, **order}), sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A PATH of one empty folder, into which a test puts the bwrap that it wants."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def put_bwrap(path, script):
    (path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (path / "bwrap").chmod(0o755)


def test_a_program_is_confined_unless_the_configuration_says_otherwise(path):
    assert (read().confinement, read(confine="landlock").confinement) == ("landlock", "landlock")
    assert read(confine="none").confinement == "none"
    assert read_settings(KEY, "t", {"url": "https://a.example"}, {}).confinement == ""


def test_the_stronger_confinement_is_taken_where_it_works(path):
    put_bwrap(path, "exit 0")
    assert (read().confinement, read().confined.note) == ("bubblewrap", "")
    assert read(confine="bubblewrap").confinement == "bubblewrap"
    assert read(confine="landlock").confinement == "landlock"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "PATH has no bwrap; install the package bubblewrap"),
        ("echo 'No permissions to create a new namespace' >&2; exit 1", "No permissions to create a new namespace"),
        ("exec tail -f /dev/null", "TimeoutExpired"),
        ("exit 3", "exit code 3"),
    ],
    ids=["missing", "forbidden", "hanging", "silent"],
)
def test_bubblewrap_that_does_not_work_is_not_used_and_the_reason_is_told(path, monkeypatch, script, said):
    if said == "TimeoutExpired":
        monkeypatch.setattr(confinement, "PROBE_WAIT_S", 0.1)
    if script is not None:
        monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
        put_bwrap(path, script)
    found = read()
    assert (found.confinement, said in found.confined.note) == ("landlock", True)
    with pytest.raises(ConfigInvalid, match="confine is 'bubblewrap'") as refused:
        read(confine="bubblewrap")
    assert said in str(refused.value)


def test_where_the_system_cannot_confine_it_is_said_or_refused(path, monkeypatch):
    monkeypatch.setattr(confinement, "landlock_version", lambda: 0)
    assert read().confinement == "none"
    assert "PATH has no bwrap" in read().confined.note
    assert "no Landlock" in read().confined.note
    with pytest.raises(ConfigInvalid, match="this system has no Landlock"):
        read(confine="landlock")


def test_bubblewrap_covers_what_is_hidden_and_uncovers_the_programs_own_place(tmp_path):
    data, own, secret, missing = (tmp_path / name for name in ("data", "data/mcp/a.t", "secret", "missing"))
    own.mkdir(parents=True)
    secret.write_text("hush")
    (data / "token").write_text("hush")
    hidden = [data, secret, missing, data / "token"]
    words = confinement.wrapped("/usr/bin/bwrap", hidden=hidden, own=own, folder=own)
    assert words[0] == "/usr/bin/bwrap"
    at = words.index("--tmpfs")
    assert words[at:] == [
        *("--tmpfs", str(data)),
        *("--ro-bind", "/dev/null", str(secret)),
        *("--bind", str(own), str(own)),
        *("--remount-ro", str(data)),
        *("--chdir", str(own)),
        "--",
    ]
    for option in ("--die-with-parent", "--unshare-pid", "--proc"):
        assert option in words[:at]
    assert not {"--unshare-net", "--unshare-all"} & set(words), "the network is kept"


def test_a_user_is_for_root_to_choose_and_must_exist(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigInvalid, match="Holdfast does not run as root"):
        read(user="nobody")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("no-such-user", "", "a\0b"):
        with pytest.raises(ConfigInvalid, match="this system has no such user"):
            read(user=name)
    with pytest.raises(ConfigInvalid, match="root is not allowed"):
        read(user="root")
    assert read(user="nobody").user.name == "nobody"
    with pytest.raises(ConfigInvalid, match="are for servers with a `command`"):
        read_settings(KEY, "t", {"url": "https://a.example", "user": "nobody"}, {})


def test_a_program_whose_user_cannot_be_taken_is_not_started():
    """No process may take a number that means no user, root included."""
    done = run({"user": ["nobody", -1, -1]}, "print('started')")
    assert (done.returncode, done.stdout) == (125, "")
    assert "it could not become the user nobody" in done.stderr


def test_a_confinement_that_fails_keeps_the_program_from_being_started(monkeypatch):
    started = []
    monkeypatch.setattr(launcher, "landlock_version", lambda: 0)
    monkeypatch.setattr(os, "execve", lambda *words: started.append(words))
    monkeypatch.setattr(os, "umask", lambda mask: mask)
    with pytest.raises(launcher.ConfinementRefused, match="no Landlock"):
        launcher.become(ORDER, ["/bin/true"])
    assert started == []


def test_a_program_that_cannot_be_started_says_so_and_shows_no_traceback():
    words = [sys.executable, "-I", "-S", launcher.__file__, json.dumps(ORDER), "/no/such/program"]
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
    assert (other / "new").stat().st_mode & 0o777 == 0o640  # the umask of the user who started Holdfast


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
    is_scoped = launcher.landlock_version() >= launcher.SCOPED_SINCE
    said, names = done.stdout.splitlines()
    assert said == ("denied" if is_scoped else "signalled")
    assert ("PATH" in names, "HOME" in names) == (True, False)


def test_a_confined_program_gains_no_rights_and_ignores_no_signal():
    words = [sys.executable, "-I", "-S", launcher.__file__, json.dumps(ORDER), "/bin/cat", "/proc/self/status"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    status = dict(line.split(":\t", 1) for line in done.stdout.splitlines())
    assert status["NoNewPrivs"] == "1"
    kept = sum(1 << one for one in launcher.ROOT_KEEPS)
    assert [int(status[kind], 16) & ~kept for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
    assert not int(status["SigIgn"], 16) & 1 << signal.SIGPIPE - 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"confine": "chroot"}, "Invalid enum value 'chroot'"),
        ({"folder": "here"}, "it must be the absolute path of an existing folder"),
        ({"folder": "/no/such/folder"}, "it must be the absolute path of an existing folder"),
    ],
)
def test_a_wrong_setting_is_refused(table, said):
    with pytest.raises(ConfigInvalid, match=said):
        read(**table)


def test_confinement_is_for_programs():
    with pytest.raises(ConfigInvalid, match="are for servers with a `command`"):
        read_settings(KEY, "t", {"url": "https://a.example", "confine": "none"}, {})


async def test_config_check_says_what_is_not_confined_and_what_is_not_found_any_more(path, tmp_path, monkeypatch):
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
        confine = "landlock"
        [agents.a.mcp.weaker]
        command = ["{sys.executable}"]
        """.encode(),
        file,
    )
    found = await Inspector(config, tmp_path / "data", {}).inspect()
    unconfined, moved, weaker, secret = (note for note in found.notes)
    assert weaker.startswith("agents.a.mcp.weaker: the program is confined by landlock: bubblewrap is not used: PATH")
    assert unconfined.startswith("agents.a.mcp.open: the program is not confined")
    assert moved.startswith("agents.a.mcp.moved.command: 'server.py' does not exist")
    assert (secret.startswith("agents.a.model.api_key_file: other users may read"), "0640" in secret) == (True, True)
    assert found.ok
