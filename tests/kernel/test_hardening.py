"""What of an environment is taken for a secret, and what a hardened process looks like from inside."""

import json
import os
import subprocess
import sys

import pytest

from holdfast.config import parse_config
from holdfast.config.secrets import secret_files, secret_variables
from holdfast.kernel import hardening

SECRET = [
    ("OPENAI_API_KEY", "x"),
    ("HOLDFAST_TOKEN", "x"),
    ("GITHUB_PAT", "x"),
    ("aws_secret_access_key", "x"),
    ("PGPASSWORD", "x"),
    ("MYTOKEN", "x"),
    ("SMTP_PASS", "x"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/a/file"),
    ("DATABASE_URL", "postgresql://holdfast:hush@db/x"),
    ("BROKER", "redis://:hush@cache"),
]
PLAIN = [
    ("PATH", "/bin"),
    ("KEYBOARD", "us"),
    ("COMPASS", "north"),
    ("OLLAMA_HOST", "http://a:11434"),
    ("PWD", "/"),
    ("HOLDFAST_KEY_FILE", "/k"),
]
LOOK = """
import atexit, ctypes, json, os, sys, holdfast.cli, holdfast.kernel.hardening as hardening
def tell():
    hardening.conceal(["PATH", "HTTPS_PROXY", "ODD"])
    dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == "linux" else 0
    shown = sorted(set(os.environ) & {"A_TOKEN", "ODD", "HTTPS_PROXY"})
    kept = {name: hardening.variables().get(name) for name in ("A_TOKEN", "ODD", "HTTPS_PROXY")}
    print(json.dumps([dumpable, os.umask(0), shown, kept, "PATH" in os.environ]), file=sys.stderr)
atexit.register(tell)
sys.argv = ["holdfast", "--help"]
holdfast.cli.main()
"""


@pytest.mark.parametrize(("name", "value"), SECRET)
def test_a_secret_is_known_by_its_name_or_by_a_password_in_an_address(name, value):
    assert hardening.looks_secret(name, value)


@pytest.mark.parametrize(("name", "value"), PLAIN)
def test_other_variables_are_left_alone(name, value):
    assert not hardening.looks_secret(name, value)


def test_the_command_line_conceals_its_secrets_and_keeps_its_files_private():
    given = {"A_TOKEN": "hush", "ODD": "hush too", "HTTPS_PROXY": "http://user:word@proxy"}
    code = [sys.executable, "-c", LOOK]
    done = subprocess.run(code, capture_output=True, text=True, check=True, env={**os.environ, **given})
    assert json.loads(done.stderr) == [0, 0o077, ["HTTPS_PROXY"], given, True]


def test_a_program_that_uses_the_library_keeps_its_environment(monkeypatch):
    monkeypatch.setenv("A_TOKEN", "hush")
    hardening.conceal(["A_TOKEN"])
    assert os.environ["A_TOKEN"] == hardening.variables()["A_TOKEN"] == "hush"
    assert hardening.umask_before() is None


def test_the_configuration_tells_which_variables_and_files_hold_secrets(tmp_path):
    file = tmp_path / "holdfast.toml"
    config = parse_config(
        b"""
        [agents.a]
        model = { name = "openai:m", api_key_env = "ONE" }
        [agents.a.memory.honcho]
        api_key_env = "TWO"
        [agents.a.channels.slack]
        token_env = "THREE"
        signing_secret_file = "four"
        [agents.a.mcp.m]
        env = ["FIVE"]
        [agents.b]
        model = { name = "openai:m", api_key_file = "/six" }
        """,
        file,
    )
    assert config.agents is not None
    assert secret_variables(config.agents) == {"ONE", "TWO", "THREE", "FIVE"}
    assert {path.name for path in secret_files(file, config.agents)} == {"four", "six"}
