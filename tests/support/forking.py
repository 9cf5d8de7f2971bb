"""Commands in processes of their own that need not import Holdfast again.

One process has imported what they need; each command is a fork of it, and does what `python -m` or `python -c` does
after its imports. It can be killed, and ends as any process ends. The process ends with the tests, because it reads
from them.
"""

import atexit
import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tests.support.patience import HANGS_S

PROGRAM = """
import importlib, json, os, runpy, sys

for name in json.loads(sys.argv[1]):
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
os.chdir(wanted["folder"])
os.environ.clear()
os.environ.update(wanted["env"])
how, what, *words = wanted["command"]
sys.argv = [how, *words]
if how == "-c":
    exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
else:
    runpy.run_module(what, run_name="__main__", alter_sys=True)
"""


class ForkedCommands:
    """A process that has imported some modules, started with some variables and options of the interpreter."""

    def __init__(self, modules: Sequence[str], variables: Mapping[str, str], *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *options, "-c", PROGRAM, json.dumps(modules)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            encoding="utf-8",
        )
        atexit.register(self._end)
        assert self._answer() == "ready"

    def run(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """What `subprocess.run` would do with `["python", *command]`; a command begins with `-m` or `-c`."""
        with NamedTemporaryFile() as out, NamedTemporaryFile() as err:
            wanted = {"command": [*command], "env": {**variables}, "folder": str(folder or Path.cwd())}
            assert self._process.stdin
            self._process.stdin.write(json.dumps({**wanted, "out": out.name, "err": err.name}) + "\n")
            self._process.stdin.flush()
            code = self._answer()
            return subprocess.CompletedProcess([*command], code, out.read().decode(), err.read().decode())

    def _answer(self) -> Any:
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], HANGS_S)[0]:
            self._end()
            raise TimeoutError("a command hangs")
        return json.loads(self._process.stdout.readline())

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()
