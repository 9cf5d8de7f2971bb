"""`holdfast init` writes a file that is valid as it stands and has what was asked for."""

import json
from pathlib import Path

import pytest

from holdfast.config import load_config
from holdfast.config.draft import CHANNELS, PROVIDERS, Choices, draft
from holdfast.config.reading import read_config
from holdfast.turns.policy import AgentPolicy
from tests.cli.test_exit_codes import Terminal, run

FILE = Path("holdfast.toml")
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TELEGRAM_TOKEN")


@pytest.fixture(autouse=True)
def without_keys(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")


def policy(data: Path, agent: str = "main") -> AgentPolicy:
    return (load_config(data / "holdfast.toml").agents or {})[agent]


def test_the_choices_reach_the_file(tmp_path):
    options = ("--model", "openai:gpt-5.2", "--api-key-env", "MY_KEY", "--provider", "honcho", "--people", "one")
    more = ("--provider-url", "http://127.0.0.1:9000", "--channel", "telegram", "--channel", "slack")
    done = run("init", "--data", tmp_path, *options, *more, "--operator", "telegram:123", "--agent", "zoe")
    assert done.exit_code == 0, done.output
    zoe = policy(tmp_path, "zoe")
    assert zoe.model == {"name": "openai:gpt-5.2", "api_key_env": "MY_KEY"}
    assert zoe.memory == {"local": {}, "files": {}, "honcho": {"url": "http://127.0.0.1:9000"}}
    assert set(zoe.channels) == {"telegram", "slack"}
    assert zoe.access.operators == zoe.access.allow == {"telegram:123"}
    assert zoe.recall.shares_all
    for name in ("MY_KEY", "TELEGRAM_TOKEN", "SLACK_BOT_TOKEN"):
        assert f"the environment has no {name}" in done.stdout
    assert run("config", "check", "--data", tmp_path).exit_code == 1


def test_a_file_that_misses_nothing_is_valid_at_once(tmp_path):
    done = run("init", "--data", tmp_path, "--model", "practice", "--json")
    assert (done.exit_code, json.loads(done.stdout)["missing"]) == (0, [])
    assert run("config", "check", "--data", tmp_path).exit_code == 0


def test_without_a_terminal_and_options_the_template_is_written(tmp_path):
    assert run("init", "--data", tmp_path).exit_code == 0
    assert (tmp_path / "holdfast.toml").read_text(encoding="utf-8") == draft(Choices())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model", "gpt"), "vendor, a colon and the model"),
        (("--model", "opnai:gpt-5"), "did you mean openai"),
        (("--operator", "telegram:@bob"), "not an immutable id"),
        (("--agent", "../x"), "letters, digits"),
        (("--model", "openai:x", "--api-key-env", ""), None),
    ],
)
def test_a_wrong_choice_writes_nothing(tmp_path, options, said):
    done = run("init", "--data", tmp_path, *options)
    assert (done.exit_code == 0) is (said is None)
    assert (tmp_path / "holdfast.toml").exists() is (said is None)
    assert said is None or said in done.stderr


@pytest.mark.parametrize("words", [("--channel", "irc"), ("--provider", "mem"), ("--people", "all")])
def test_an_unknown_platform_or_service_is_wrong_usage(tmp_path, words):
    assert run("init", "--data", tmp_path, *words).exit_code == 2
    assert not (tmp_path / "holdfast.toml").exists()


@pytest.mark.parametrize("provider", ["", *PROVIDERS])
@pytest.mark.parametrize("channels", [(), *((one,) for one in CHANNELS), CHANNELS])
@pytest.mark.parametrize("agent", ["main", "two.parts", "zoe-1"])
def test_every_choice_gives_a_valid_file(provider, channels, agent):
    text = draft(
        Choices(agent=agent, model="practice", provider=provider, channels=channels, operators=("slack:T1.U2",))
    )
    found = read_config(text.encode(), FILE)
    assert found.problems == ()
    (made,) = (found.config.agents or {}).values()
    assert set(found.config.agents or {}) == {agent}
    assert set(made.channels) == set(channels)
    assert set(made.memory or {}) == ({"local", "files", provider} if provider else set())


def test_a_terminal_is_asked(tmp_path):
    terminal = Terminal("init", "--data", tmp_path / "data", sees=b"[one/several]")
    for answer, sees in (("one", b"[model]"), ("practice", b"[platforms]"), ("Telegram", b"[memory]")):
        terminal.type(f"{answer}\n")
        terminal.read_until(sees)
    terminal.type("none\n")
    terminal.read_until(b"next     ")
    terminal.lose()
    made = policy(tmp_path / "data")
    assert (made.model, set(made.channels), made.recall.shares_all) == ({"name": "practice"}, {"telegram"}, True)


def test_enter_at_every_question_writes_the_template(tmp_path):
    terminal = Terminal("init", "--data", tmp_path / "data", sees=b"[one/several]")
    for sees in (b"[model]", b"[platforms]", b"[memory]", b"next     "):
        terminal.type("\n")
        terminal.read_until(sees)
    terminal.lose()
    assert (tmp_path / "data" / "holdfast.toml").read_text(encoding="utf-8") == draft(Choices())
