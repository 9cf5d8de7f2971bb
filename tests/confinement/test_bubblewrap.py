"""A program in a real bubblewrap, or of a user of its own, finds no secret, does its work, and ends with Holdfast.

Needs bwrap on PATH, a system that lets it work, and root, who may start a program as another user.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from holdfast.inbox.channel_status import ConnectionState
from holdfast.tools.mcp import confine
from holdfast.tools.mcp.confinement import Confine, offer_for, wrapped
from tests.security.spying import SPY, spied
from tests.support.encryption import holdfast
from tests.support.fakes import soon
from tests.support.patience import HANGS_S
from tests.tools.test_mcp import NAMES, STDIO, call, started

pytestmark = pytest.mark.confinement
NOBODY = 65534
GONE = ("PermissionError", "FileNotFoundError")


@pytest.fixture(scope="session", autouse=True)
def bwrap():
    offer = offer_for(Confine.BUBBLEWRAP)
    assert offer.fault == "", f"these tests need a bubblewrap that works: {offer.fault}"
    assert os.geteuid() == 0, "these tests need root, who may start a program as another user"
    return offer.bwrap


@pytest.fixture(scope="module")
def public():
    """A Python and the spy, where every user can read them."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-spy-"))
    folder.chmod(0o755)
    shutil.copy(SPY, folder / "spy.py")
    (folder / "spy.py").chmod(0o644)
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    assert python is not None, "these tests need a Python of the system, which every user can run"
    yield python, str(folder / "spy.py")
    shutil.rmtree(folder)


def look(tmp_path, *wanted):
    return asyncio.run(spied(tmp_path, *wanted))


def finds_nothing(found):
    assert found["parent_environment"] in {*GONE, "nothing", "empty"}
    for place in ("parent_memory", "token_file", "store", "config"):
        assert found[place] in GONE, place
    assert found["listing"] in {*GONE, "nothing", "empty"}
    assert set(found["files"]) == {"telegram.secret", "holdfast.key"}
    assert set(found["files"].values()) <= set(GONE)
    assert (found["own_environment"], found["environments"]) == ("nothing", "nothing")
    assert found["can_write_beside_home"] in {*GONE, "OSError"}
    assert found["can_write_at_home"] == "nothing"
    assert found["can_read_programs"] == "secret"
    assert found["descriptors"] == [0, 1, 2]


@pytest.mark.parametrize("mode", ["bubblewrap", "auto"])
def test_a_program_in_bubblewrap_finds_no_secret_and_keeps_its_own_place(tmp_path, mode):
    found, told = look(tmp_path, mode)
    finds_nothing(found)
    assert (found["folder"], found["home"]) == (found["own"], found["own"])
    assert (told["confinement"], told["confinement_note"], told["user"]) == ("bubblewrap", "", "")
    assert (tmp_path / "data" / "mcp" / "main.spy" / "mine").read_text() == "x"
    assert not (tmp_path / "data" / "mine").exists()


@pytest.mark.parametrize("mode", ["bubblewrap", "landlock", "none"])
def test_a_program_of_a_user_of_its_own_finds_no_secret(tmp_path, public, mode):
    found, told = look(tmp_path, mode, 'user = "nobody"', public)
    finds_nothing(found)
    assert found["user"] == [[NOBODY] * 3, [NOBODY] * 3, [NOBODY]]
    assert found["home"] == found["folder"]
    assert not found["home"].startswith(str(tmp_path))
    assert not Path(found["home"]).exists(), "a home that goes with the program"
    assert (told["confinement"], told["user"]) == (mode, "nobody")


async def test_a_server_in_bubblewrap_is_called_and_started_again_when_it_dies():
    async with started({**STDIO, "confine": "bubblewrap"}) as tools:
        (now,) = tools.standings()
        assert (now.state, set(now.tools), now.confinement) == (ConnectionState.UP, NAMES, "bubblewrap")
        assert (await call(tools, "t_add", '{"a": 2, "b": 2}')).text == "4"
        assert (await call(tools, "t_die")).unknown
        assert (await call(tools, "t_add", '{"a": 3, "b": 3}')).text == "6"
        assert tools.standings()[0].restarts == 1


async def test_a_secret_that_is_exchanged_while_the_program_runs_stays_hidden(tmp_path, bwrap):
    """A cover goes when its file is replaced by renaming; Landlock inside denies the new file."""
    secret = tmp_path / "secret"
    secret.write_text("old")
    order: dict[str, object] = {"keep": [], "umask": None, "user": None, "folders": [], "confined": True}
    step = json.dumps({**order, "landlock": True, "deny": [str(secret)], "allow": []})
    code = f"print('ready', flush=True); input(); print(open({str(secret)!r}).read())"
    words = [*wrapped(bwrap, hidden=[secret], own=None), sys.executable, "-I", "-S", confine.__file__, step]
    process = await asyncio.create_subprocess_exec(
        *words, sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await soon(process.stdout.readline()) == b"ready\n"
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").replace(secret)
    said, errors = await soon(process.communicate(b"go\n"))
    assert (said, b"PermissionError" in errors) == (b"", True)


def test_a_program_ends_when_holdfast_is_killed(bwrap):
    """The program ignores every request to end; the end of its output shows that it is gone."""
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    words = [*wrapped(bwrap, hidden=[], own=None), sys.executable, "-c", code]
    parent = f"import subprocess; subprocess.run({words!r})"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.kill()
        assert process.communicate(timeout=HANGS_S)[0] == ""


def test_root_in_bubblewrap_keeps_no_right_that_leads_out_of_it(bwrap):
    words = [*wrapped(bwrap, hidden=[Path("/etc/hostname")], own=None), "/bin/sh", "-c"]
    done = subprocess.run(
        [*words, "umount /etc/hostname; cat /etc/hostname; grep -e NoNewPrivs -e CapPrm /proc/self/status"],
        capture_output=True,
        text=True,
        check=False,
    )
    status = dict(line.split(":\t", 1) for line in done.stdout.splitlines())
    assert set(status) == {"NoNewPrivs", "CapPrm"}, done.stdout
    assert (status["NoNewPrivs"], int(status["CapPrm"], 16) & 1 << 21) == ("1", 0)  # sys_admin


def test_config_check_says_nothing_of_the_strongest_and_names_what_is_weaker(tmp_path):
    config = tmp_path / "holdfast.toml"
    table = f'[agents.main]\nmodel = "practice"\n[agents.main.mcp.t]\ncommand = ["{sys.executable}"]\n'
    config.write_text(table)
    checked = holdfast(tmp_path / "data", "config", "check", "--config", str(config), "--json")
    assert json.loads(checked.stdout)["notes"] == []
    config.write_text(f'{table}confine = "none"\nuser = "nobody"\n')
    checked = holdfast(tmp_path / "data", "config", "check", "--config", str(config), "--json")
    (note,) = json.loads(checked.stdout)["notes"]
    assert note == "agents.main.mcp.t: the program is not confined: it can read all files of nobody"
