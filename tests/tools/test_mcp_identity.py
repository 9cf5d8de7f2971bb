"""Two agents have the same MCP tool when their servers are one program with the same variables, or one URL."""

import pytest

from holdfast.tools.mcp.settings import read_settings

HERE = {"KEY": "a", "OTHER": "b"}


def identity(environment=HERE, **table):
    return read_settings("agents.a.mcp.s", "s", table, environment).identity


def test_the_same_settings_are_the_same_server_whatever_is_wanted_of_it():
    assert identity(command=["x", "1"], env=["KEY"]) == identity(command=["x", "1"], env=["KEY"], tools=["t"])
    assert identity(url="https://a.example/mcp") == identity(url="https://a.example/mcp", timeout_s=5)


@pytest.mark.parametrize(
    "other",
    [
        {"command": ["x", "2"], "env": ["KEY"]},
        {"command": ["x", "1"]},
        {"command": ["x", "1"], "env": ["KEY"], "environment": {"KEY": "another"}},
        {"command": ["x", "1"], "env": ["KEY"], "folder": "/"},
        {"command": ["x", "1"], "env": ["KEY"], "confine": "none"},
        {"url": "https://a.example/mcp"},
    ],
    ids=["arguments", "no variable", "another value", "folder", "confinement", "url"],
)
def test_whatever_changes_what_a_tool_may_reach_is_another_server(other):
    assert identity(command=["x", "1"], env=["KEY"]) != identity(**other)


def test_another_token_is_another_server():
    url = "https://a.example/mcp"
    assert identity(url=url, token_env="KEY") != identity(url=url, token_env="OTHER")
