"""A key leaves this machine over https only, and never follows a redirect."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from holdfast.config import parse_config
from holdfast.kernel.errors import PlainHttpRefused
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.kernel.settings_table import is_loopback
from holdfast.runtime.inspection import Inspector
from holdfast.tools.mcp.connection import McpConnection
from holdfast.tools.mcp.server import McpServer
from holdfast.tools.mcp.settings import read_settings
from tests.support.fakes import soon
from tests.support.processes import spawn

KEYS = {
    "MODEL": "canary-model",
    "MEMORY": "canary-memory",
    "BOT": "1234:canary-bot",
    "SLACK": "xoxb-canary-slack",
    "APP": "xapp-canary-slack",
    "DISCORD": "canary.disc.ord",
}
TABLES = {
    "model": '[agents.a.model]\nname = "openai:m"\nbase_url = "{url}/v1"\napi_key_env = "MODEL"',
    "anthropic": '[agents.a.model]\nname = "anthropic:m"\nbase_url = "{url}"\napi_key_env = "MODEL"',
    "hindsight": '[agents.a.memory.hindsight]\nurl = "{url}"\napi_key_env = "MEMORY"',
    "honcho": '[agents.a.memory.honcho]\nurl = "{url}"\napi_key_env = "MEMORY"',
    "telegram": '[agents.a.channels.telegram]\napi_url = "{url}"\ntoken_env = "BOT"',
    "slack": '[agents.a.channels.slack]\napi_url = "{url}"\ntoken_env = "SLACK"\napp_token_env = "APP"',
    "discord": '[agents.a.channels.discord]\napi_url = "{url}"\ntoken_env = "DISCORD"',
    "mcp": '[agents.a.mcp.m]\nurl = "{url}/mcp"\ntoken_env = "MODEL"',
}
ALLOW = "send_key_over_plain_http = true"


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    """Memory providers read the environment of the process."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def configured(tmp_path, name: str, url: str, more: str = ""):
    return parse_config(f"[agents.a]\n{TABLES[name].format(url=url)}\n{more}\n".encode(), tmp_path / "holdfast.toml")


async def problems(tmp_path, name: str, url: str, more: str = ""):
    return (await Inspector(configured(tmp_path, name, url, more), tmp_path / "data", KEYS).inspect()).problems


@pytest.mark.parametrize("name", TABLES)
async def test_a_key_does_not_go_over_plain_http_to_another_machine(tmp_path, name):
    """Finding 12: keys went over plain http to remote hosts."""
    (problem,) = await problems(tmp_path, name, "http://models.example:8000")
    assert isinstance(problem, PlainHttpRefused)
    assert problem.code == "plain_http_refused"
    assert "http://models.example:8000" in str(problem)
    assert ALLOW in f"{problem} {problem.hint}"
    assert "canary" not in str(problem)


@pytest.mark.parametrize("name", TABLES)
async def test_https_and_this_machine_are_fine(tmp_path, name):
    urls = ["https://models.example", "http://127.0.0.1:9", "http://localhost:9", "http://[::1]"]
    assert [await problems(tmp_path, name, url) for url in urls] == [(), (), (), ()]


@pytest.mark.parametrize("name", TABLES)
async def test_an_operator_can_allow_it_for_one_address_in_so_many_words(tmp_path, name):
    assert await problems(tmp_path, name, "http://models.example:8000", ALLOW) == ()


@pytest.mark.parametrize("name", ["model", "hindsight", "honcho", "mcp"])
async def test_without_a_key_plain_http_is_fine(tmp_path, name):
    kept = [line for line in TABLES[name].splitlines() if "_env" not in line]
    text = "[agents.a]\n" + "\n".join(kept).format(url="http://models.example")
    config = parse_config(text.encode(), tmp_path / "holdfast.toml")
    assert (await Inspector(config, tmp_path / "data", {}).inspect()).problems == ()


@pytest.mark.parametrize("host", ["127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "10.0.0.1", "::", ""])
def test_a_name_that_only_looks_like_this_machine_is_another(host):
    assert not is_loopback(host)


async def test_a_key_of_the_vendor_that_is_only_in_the_environment_counts_as_well(tmp_path):
    """The table names none: the vendor's own variable would be sent."""
    text = '[agents.a]\nmodel = { name = "openai:m", base_url = "http://models.example/v1" }'
    config = parse_config(text.encode(), tmp_path / "holdfast.toml")
    (problem,) = (await Inspector(config, tmp_path / "data", {"OPENAI_API_KEY": "canary"}).inspect()).problems
    assert problem.code == "plain_http_refused"


@pytest.mark.parametrize(
    ("vendor", "variable"),
    [("openai", "OPENAI_BASE_URL"), ("openai-chat", "OPENAI_BASE_URL"), ("anthropic", "ANTHROPIC_BASE_URL")],
)
@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://models.example/v1", "plain_http_refused"),
        ("https://169.254.169.254/", "provider_url_forbidden"),
        ("https://models.example/v1", None),
        ("http://127.0.0.1:9/v1", None),
    ],
)
async def test_an_address_that_the_environment_names_is_checked_like_one_in_the_file(
    tmp_path, vendor, variable, url, code
):
    """The vendors' own libraries send the key there."""
    config = parse_config(f'[agents.a]\nmodel = "{vendor}:m"'.encode(), tmp_path / "holdfast.toml")
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "canary")
    found = (await Inspector(config, tmp_path / "data", {**keys, variable: url}).inspect()).problems
    assert [one.code for one in found] == ([code] if code else [])
    assert all(variable in str(one) and "canary" not in str(one) for one in found)


async def test_a_start_is_refused_with_the_code(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text(f"[agents.a]\n{TABLES['model'].format(url='http://models.example')}\n")
    process = await spawn(tmp_path / "data", "--config", str(file), environment=KEYS)
    out, _ = await process.communicate()
    assert (process.returncode, json.loads(out)["error"]["code"]) == (1, "plain_http_refused")


# --- redirects -------------------------------------------------------------------------------------


@dataclass
class Web:
    """A real server on loopback. It sends everybody to `onward`, or answers nothing of use."""

    onward: str = ""
    url: str = ""
    heard: list[str] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heard.append(head)
        path = head.split(" ")[1]
        said = f"307 Temporary Redirect\r\nLocation: {self.onward}{path}" if self.onward else "404 Not Found"
        writer.write(f"HTTP/1.1 {said}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def web(onward: str = ""):
    one = Web(onward)
    server = await asyncio.start_server(one.answer, "127.0.0.1", 0)
    async with server:
        one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield one


@pytest.mark.parametrize("name", [name for name in TABLES if name != "mcp"])
async def test_a_redirect_does_not_take_the_key_along(tmp_path, name):
    """By the vendors' own libraries, as `holdfast config check --connect` and a running process use them."""
    async with web() as elsewhere, web(elsewhere.url) as first:
        config = configured(tmp_path, name, first.url)
        found = await soon(Inspector(config, tmp_path / "data", KEYS, connect_wait_s=30.0).inspect())
        assert found.problems == ()
        assert not found.ok
    assert "canary" in "".join(first.heard)
    assert "canary" not in "".join(elsewhere.heard)


async def test_a_redirect_does_not_take_an_mcp_servers_token_along():
    async with web() as elsewhere, web(elsewhere.url) as first:
        settings = read_settings("mcp.m", "m", {"url": f"{first.url}/mcp", "token_env": "MODEL"}, KEYS)
        server = McpServer(
            "a", settings, McpConnection, clock=SystemClock(), entropy=SystemEntropy(), tasks=AsyncTasks()
        )
        server.start()
        await soon(server.settled())
        await server.close()
    assert "canary" in "".join(first.heard)
    assert "canary" not in "".join(elsewhere.heard)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "mcp"])
async def test_no_proxy_of_the_environment_is_shown_a_key_that_goes_to_this_machine(tmp_path, monkeypatch, name):
    """Plain http to loopback is safe because the connection passes no other host; a proxy would be one."""
    async with web() as proxy, web() as server:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.url)
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(variable, raising=False)
        config = configured(tmp_path, name, server.url)
        await soon(Inspector(config, tmp_path / "data", KEYS, connect_wait_s=30.0).inspect())
    assert proxy.heard == []
    assert "canary" in "".join(server.heard)


async def test_no_proxy_of_the_environment_is_shown_an_mcp_servers_token(monkeypatch):
    async with web() as proxy, web() as server:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.url)
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(variable, raising=False)
        settings = read_settings("mcp.m", "m", {"url": f"{server.url}/mcp", "token_env": "MODEL"}, KEYS)
        one = McpServer("a", settings, McpConnection, clock=SystemClock(), entropy=SystemEntropy(), tasks=AsyncTasks())
        one.start()
        await soon(one.settled())
        await one.close()
    assert proxy.heard == []
    assert "canary" in "".join(server.heard)
