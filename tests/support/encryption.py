"""Holdfast with the SQLite that encrypts, in processes of their own: this one has the plain library."""

import atexit
import json
import os
import select
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tests.support.patience import HANGS_S

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
        return _template().run(command, variables)
    return subprocess.run(
        command, capture_output=True, text=True, env=variables, check=False, timeout=HANGS_S, encoding="utf-8"
    )


PRELOADED = [
    *("cryptography.fernet", "pydantic.type_adapter", "typer.testing"),
    *(f"holdfast.cli.{name}" for name in ("audit", "commands", "encryption", "logs", "opening", "send", "sessions")),
    *("holdfast.providers.local", "holdfast.runtime.library"),
]
# A process that has imported everything and becomes a command in a copy of itself. What the copy does is what
# `python -m holdfast` or `python -c` does after its imports.
TEMPLATE = """
import importlib, json, os, runpy, sys

for name in PRELOADED:
    importlib.import_module(name)

print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    wanted = json.loads(line)
    pid = os.fork()
    if not pid:
        break
    print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])), flush=True)
else:
    os._exit(0)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(os.open(wanted["out"], os.O_WRONLY), 1)
os.dup2(os.open(wanted["err"], os.O_WRONLY), 2)
os.environ.clear()
os.environ.update(wanted["env"])
how, what, *words = wanted["command"]
sys.argv = [how, *words]
if how == "-c":
    exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
else:
    runpy.run_module(what, run_name="__main__", alter_sys=True)
"""


class Template:
    """Importing Holdfast takes longer than most commands. It is done once; each command is a fork of that process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TEMPLATE.replace("PRELOADED", repr(PRELOADED))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            encoding="utf-8",
        )
        assert self._answer() == "ready"
        atexit.register(self._end)

    def run(self, command: list[str], variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        """What `subprocess.run` would do with `[python, "-m" or "-c", ...]`."""
        with NamedTemporaryFile() as out, NamedTemporaryFile() as err:
            wanted = {"command": command[1:], "env": variables, "out": out.name, "err": err.name}
            assert self._process.stdin
            self._process.stdin.write(json.dumps(wanted) + "\n")
            self._process.stdin.flush()
            code = self._answer()
            return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())

    def _answer(self) -> Any:
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], HANGS_S)[0]:
            self._end()
            raise TimeoutError("a command hangs")
        return json.loads(self._process.stdout.readline())

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()
        _template.cache_clear()


@cache
def _template() -> Template:
    return Template()


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
