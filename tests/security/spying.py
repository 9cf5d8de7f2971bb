"""A real `holdfast up` whose MCP program looks for its secrets (spy.py)."""

import json
import sys
from pathlib import Path

from holdfast.tools.mcp.launcher import landlock_version
from tests.support.encryption import LIBRARY, holdfast
from tests.support.processes import Up

SPY = Path(__file__).with_name("spy.py")
CONFIG = """
[agents.main]
model = {{ name = "openai:m", base_url = "http://127.0.0.1:9/v1", api_key_env = "ODDLY_NAMED" }}
[agents.main.mcp.spy]
command = [{program}]
confine = "{confine}"
{more}
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


async def spied(
    tmp_path: Path, confine: str, more: str = "", spy: tuple[str, str] = (sys.executable, str(SPY))
) -> tuple[dict[str, object], dict[str, object]]:
    """What the program of a real `holdfast up` on an encrypted folder found, and what is said of it as a server."""
    data, config, secret = tmp_path / "data", tmp_path / "holdfast.toml", tmp_path / "telegram.secret"
    secret.write_text("1:canary-telegram")
    key = tmp_path / "keys" / "holdfast.key"
    key.parent.mkdir()
    key.write_text("canary-" + "0123456789abcdef" * 3)
    words = [*spy, str(data), str(config), str(secret), str(key)]
    program = ", ".join(map(json.dumps, words))
    config.write_text(CONFIG.format(program=program, confine=confine, more=more) + "# canary-config\n")
    encrypted = holdfast(data, "encrypt", "--key-file", str(key))
    assert encrypted.returncode == 0, encrypted.stderr
    (data / "token").write_text("canary-" + "0123456789abcdef" * 3)
    up = await Up.start(data, "--config", str(config), environment={**SECRETS, "PYTHONPATH": str(LIBRARY)})
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


def need_landlock() -> None:
    """Fail with a sentence where the guarantee cannot be tested: a green run must mean that it holds."""
    assert landlock_version() > 0, (
        "this kernel has no Landlock (Linux 5.13 and later, started with it): use one that has"
    )
