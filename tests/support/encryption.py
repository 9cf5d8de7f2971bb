"""Holdfast with the SQLite that encrypts, in processes of their own: this one has the plain library."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.patience import HANGS_S
from tests.support.warm import WarmServer

LIBRARY = Path(sys.prefix) / "encryption"
CANARY = "Byron-the-canary"
SAYING = f"My cat is called {CANARY}."


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    return {**kept, "PYTHONPATH": str(LIBRARY), "NO_COLOR": "1", **more}


def holdfast(folder: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """One command on the folder."""
    command = [sys.executable, "-m", "holdfast", *words, "--data", str(folder)]
    return _run(command, environment(**more))


SEVERAL = """
import json, sys
from typer.testing import CliRunner
from holdfast.cli.commands import app

done = [CliRunner().invoke(app, words, prog_name="holdfast") for words in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stdout, one.stderr) for one in done]))
"""


def several(folder: Path, *commands: tuple[str, ...], **more: str) -> "list[subprocess.CompletedProcess[str]]":
    """Commands on the folder, one after the other in one process: starting it takes longer than most of them."""
    given = [[*words, "--data", str(folder)] for words in commands]
    done = python(SEVERAL, json.dumps(given), **more)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return [subprocess.CompletedProcess(words, *one) for words, one in zip(given, told, strict=True)]


def python(code: str, *words: object, **more: str) -> "subprocess.CompletedProcess[str]":
    """A program of its own, with the library that encrypts."""
    return _run([sys.executable, "-c", code, *map(str, words)], environment(**more))


def _run(command: list[str], variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    if variables["PYTHONPATH"] == str(LIBRARY):
        return _template().run(command[1:], variables)
    return subprocess.run(
        command, capture_output=True, text=True, env=variables, check=False, timeout=HANGS_S, encoding="utf-8"
    )


PRELOADED = [
    *("cryptography.fernet", "pydantic.type_adapter", "typer.testing"),
    *(f"holdfast.cli.{name}" for name in ("audit", "commands", "encryption", "logs", "opening", "send", "sessions")),
    *("holdfast.providers.local", "holdfast.runtime.library"),
]


@cache
def _template() -> WarmServer:
    return WarmServer(PRELOADED, variables=environment())


def code_of(done: "subprocess.CompletedProcess[str]") -> str:
    """The code of the error that a command with `--json` ended with."""
    assert done.returncode != 0, done.stdout
    return str(json.loads(done.stdout)["error"]["code"])


def holders(folder: Path, word: str = CANARY) -> list[str]:
    """The files under a folder in which the word stands."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path.name for path in files if word.encode() in path.read_bytes()]


def filled(folder: Path) -> Path:
    """A data folder in which somebody was heard and answered."""
    assert holdfast(folder, "send", "--chat", "ada", SAYING, "--wait").returncode == 0
    assert {"holdfast.db", "recall.db"} <= set(holders(folder))
    return folder
