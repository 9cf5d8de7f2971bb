"""`holdfast config show` prints every setting in force with its place in the file, and no secret."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config import AgentTable, parse_config
from holdfast.config.effective import HIDDEN, defaults_of, effective_settings, redacted
from tests.cli.test_exit_codes import run

TEXT = """\
[server]
port = 7421
[models.fast]
name = "openai:gpt-5-mini"
[defaults]
model = "fast"
context_tokens = 64000
[defaults.memory.honcho]
url = "http://127.0.0.1:8000"
[agents.a]
[agents.a.turns]
arrivals = "steer"
[agents.b.model]
temperature = 1.2
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "holdfast.toml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def shown(data: Path, *options: str) -> dict[str, dict[str, object]]:
    done = run("config", "show", "--data", data, "--json", *options)
    assert done.exit_code == 0, done.output
    return {one["key"]: one for one in json.loads(done.stdout)["settings"]}


def test_each_setting_has_its_value_and_its_place(data):
    found = shown(data)
    places = {
        "server.port": (7421, "server.port", 2),
        "server.host": ("127.0.0.1", "default", None),
        "agents.a.turns.arrivals": ("steer", "agents.a.turns.arrivals", 12),
        "agents.a.turns.model_wait_s": (120.0, "default", None),
        "agents.a.context_tokens": (64_000, "defaults.context_tokens", 7),
        "agents.a.model.name": ("openai:gpt-5-mini", "models.fast.name", 4),
        "agents.a.memory.honcho.url": ("http://127.0.0.1:8000", "defaults.memory.honcho.url", 9),
        "agents.b.model.name": ("openai:gpt-5-mini", "models.fast.name", 4),
        "agents.b.model.temperature": (1.2, "agents.b.model.temperature", 14),
    }
    for key, (value, origin, line) in places.items():
        assert (found[key]["value"], found[key]["origin"], found[key]["line"]) == (value, origin, line), key


def test_no_setting_of_an_agent_is_missing(data):
    found = shown(data)
    for name in defaults_of(AgentTable):
        assert any(key == f"agents.a.{name}" or key.startswith(f"agents.a.{name}.") for key in found), name


def test_the_values_are_those_that_the_agent_runs_with(data):
    """Each setting that is shown, written into a file of its own, gives the same agent."""
    config = parse_config(TEXT.encode(), data / "holdfast.toml")
    table: dict[str, Any] = {}
    for one in effective_settings(config):
        *steps, last = one.key.split(".")
        if steps[:2] == ["agents", "a"] and one.value is not None:
            inner = table
            for step in steps[2:]:
                inner = inner.setdefault(step, {})
            inner[last] = one.value
    assert msgspec.convert(table, AgentTable).policy() == (config.agents or {})["a"]


def test_one_agent_is_shown_alone_and_without_defaults_if_wanted(data):
    assert set(shown(data, "--agent", "b", "--set")) == {
        "server.port",
        "agents.b.context_tokens",
        "agents.b.memory.honcho.url",
        "agents.b.model.name",
        "agents.b.model.temperature",
    }
    text = run("config", "show", "--data", data, "--agent", "b", "--set").stdout
    assert "[models.fast], line 4" in text
    assert "[agents.a]" not in text


def test_an_unknown_agent_is_named_with_the_known_ones(data):
    done = run("config", "show", "--data", data, "--agent", "zoe")
    assert (done.exit_code, "configured are a, b" in done.stderr) == (1, True)


def test_without_a_file_any_agent_has_the_defaults_and_the_detected_model(tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    found = shown(tmp_path, "--agent", "zoe")
    assert (found["agents.zoe.model"]["value"], found["agents.zoe.model"]["origin"]) == ("practice", "environment")
    assert run("config", "show", "--data", tmp_path, "--set", "--agent", "zoe").exit_code == 0


def test_a_file_with_errors_is_not_shown(data):
    (data / "holdfast.toml").write_text("[agents.a]\nx = 1\ny = 2", encoding="utf-8")
    done = run("config", "show", "--data", data)
    assert (done.exit_code, done.stdout, done.stderr.count("error[config_invalid]")) == (1, "", 2)
    as_json = json.loads(run("config", "show", "--data", data, "--json").stdout)
    assert len(as_json["problems"]) == 2
    assert as_json["error"] == as_json["problems"][0]


@pytest.mark.parametrize(
    ("key", "value", "seen"),
    [
        ("mcp.x.command", ["run", "--token", "abc", "--port", "1"], ["run", "--token", HIDDEN, "--port", "1"]),
        ("mcp.x.command", ["run", "--api-key=abc", "a=b"], ["run", HIDDEN, "a=b"]),
        ("mcp.x.command", ["8714:AAHcanaryofatoken93kd"], [HIDDEN]),
        ("mcp.x.url", "https://me:pass@example.org/mcp", f"https://{HIDDEN}@example.org/mcp"),
        ("channels.telegram.token_env", "TELEGRAM_TOKEN", "TELEGRAM_TOKEN"),
        ("channels.telegram.token_env", "8714:AAH", HIDDEN),
        ("channels.telegram.token_file", "/run/secrets/telegram", "/run/secrets/telegram"),
        ("memory.honcho.url", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("memory.other.apikey_key", "abc", HIDDEN),
        ("model.name", "anthropic:claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("access.allow", ["slack:T024BE7LD.U012AB3CD"], ["slack:T024BE7LD.U012AB3CD"]),
        ("instructions", "token: 12345678901234567890", "token: 12345678901234567890"),
    ],
)
def test_what_may_be_a_secret_is_not_shown(key, value, seen):
    assert redacted(key, value) == seen
