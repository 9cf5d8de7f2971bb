"""A program that Holdfast starts, and its neighbours on the machine, find no secret of Holdfast's."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.processes import Up

SPY = Path(__file__).with_name("spy.py")
CONFIG = """
[agents.main]
model = {{ name = "openai:m", base_url = "http://127.0.0.1:9/v1", api_key_env = "ODDLY_NAMED" }}
[agents.main.mcp.spy]
command = [{program}]
env = ["PLAIN"]
[agents.main.channels.telegram]
token_file = "telegram.secret"
api_url = "http://127.0.0.1:9"
"""
SECRETS = {
    "HOLDFAST_TOKEN": "",  # the token is in the data folder then
    "ODDLY_NAMED": "canary-model",  # only the configuration says that it is a secret
    "ELSE_API_KEY": "canary-unused",  # named by nothing; its name tells
    "PLAIN": "for the program",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


async def spied(tmp_path: Path) -> tuple[dict[str, object], dict[str, object]]:
    """What the program of a real `holdfast up` found, and what is said of it as a server."""
    data, config, secret = tmp_path / "data", tmp_path / "holdfast.toml", tmp_path / "telegram.secret"
    secret.write_text("1:canary-telegram")
    words = [sys.executable, str(SPY), str(data), str(config), str(secret)]
    config.write_text(CONFIG.format(program=", ".join(map(json.dumps, words))) + "# canary-config\n")
    data.mkdir(mode=0o700)
    (data / "token").write_text("canary-" + "0123456789abcdef" * 3)
    up = await Up.start(data, "--config", str(config), environment=SECRETS)
    try:
        assert up.process.stdout is not None
        while (line := json.loads(await up.process.stdout.readline()))["event"] != "mcp":
            pass
        outside = from_outside(up.process.pid)
    finally:
        await up.stop()
    found = json.loads((data / "mcp.main.spy.log").read_text().splitlines()[0])
    return found | outside | {"own": str(data / "mcp" / "main.spy")}, line


def from_outside(pid: int) -> dict[str, object]:
    """What root sees of the process."""
    place = Path(f"/proc/{pid}")
    return {"as_root": (place / "environ").read_text(), "limits": (place / "limits").read_text()}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One run for all tests: nothing in it depends on what is looked at."""
    return asyncio.run(spied(tmp_path_factory.mktemp("spied")))


def test_an_mcp_program_finds_no_secret_of_the_gateway(found):
    """Finding 11: it read the gateway's secrets from its parent's environment."""
    found, _ = found
    assert found["parent_environment"] in ("PermissionError", "empty")  # which one depends on the kernel
    places = ("parent_memory", "token_file", "listing", "store", "config")
    assert {place: found[place] for place in places} == dict.fromkeys(places, "PermissionError")
    assert found["files"] == {"telegram.secret": "PermissionError"}
    assert found["own_environment"] == "nothing"


def test_an_mcp_program_is_given_little_and_a_place_of_its_own(found):
    found, told = found
    assert set(found["names"]) <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "TMPDIR", "PLAIN"}
    assert found["descriptors"] == [0, 1, 2]
    assert (found["folder"], found["home"]) == (found["own"], found["own"])
    assert (found["can_write_at_home"], found["can_read_programs"]) == ("nothing", "secret")
    assert found["leads_session"]
    assert told["confinement"] == "landlock"


def test_the_environment_of_the_gateway_holds_no_secret_even_for_root(found):
    """The block that the process was started with is overwritten; variables that are no secret stay."""
    found, _ = found
    assert "canary" not in found["as_root"]
    assert "PATH=" in found["as_root"]


def test_the_gateway_writes_no_core_file(found):
    found, _ = found
    (line,) = [line for line in found["limits"].splitlines() if line.startswith("Max core file size")]
    assert line.split()[4:6] == ["0", "0"]
