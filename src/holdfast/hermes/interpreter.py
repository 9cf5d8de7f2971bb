"""The Python interpreter of Hermes: where it is, which version of Hermes it has, and whether the plugin loads there."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.hermes.home import HermesHome
from holdfast.hermes.plugin.provider import SUPPORTED
from holdfast.kernel.errors import HermesNotFound, HermesUnsupported

WAIT_S = 300
_SHEBANG = re.compile(rb"#!\s*(\S+)")
_VERSION = "import importlib.metadata as m; print(m.version('hermes-agent'))"
_LOADS = """
import os, sys
os.environ['HERMES_HOME'] = sys.argv[1]
from plugins.memory import load_memory_provider
print('loaded', load_memory_provider('holdfast').name)
"""


@dataclass(frozen=True, slots=True)
class HermesInterpreter:
    python: Path
    version: str


def find_interpreter(given: Path | None, home: HermesHome, variables: Mapping[str, str]) -> HermesInterpreter:
    """Raises `HermesNotFound`, and `HermesUnsupported` for a version whose hooks were not checked."""
    tried = [given.expanduser()] if given is not None else [*_candidates(home, variables)]
    for python in tried:
        version = _run(python, _VERSION)
        if version is not None:
            _check(version.strip())
            return HermesInterpreter(python, version.strip())
    where = ", ".join(map(str, tried)) or "the command hermes is not on PATH"
    raise HermesNotFound(f"no interpreter with hermes-agent was found ({where})")


def check_plugin(hermes: HermesInterpreter, files: Sequence[Path]) -> None:
    """Let Hermes load the plugin from a temporary home. Raises `HermesUnsupported`.

    Releases differ in how they load a plugin, and hide its errors.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        folder = Path(home) / "plugins" / "holdfast"
        folder.mkdir(parents=True)
        for file in files:
            shutil.copyfile(file, folder / file.name)
        if not (_run(hermes.python, _LOADS, home) or "").startswith("loaded"):
            raise HermesUnsupported(f"Hermes {hermes.version} in {hermes.python} does not load the plugin")


def _candidates(home: HermesHome, variables: Mapping[str, str]) -> list[Path]:
    """The interpreter of the command `hermes`, then those of Hermes' own installer."""
    found = []
    command = shutil.which("hermes", path=variables.get("PATH"))
    if command is not None:
        script = Path(command).resolve()
        with script.open("rb") as opened:
            shebang = _SHEBANG.match(opened.read(512))
        found += [Path(shebang[1].decode())] if shebang else []
        found += [script.parent / "python"]
    found += [home.path / "hermes-agent" / name / "bin" / "python" for name in ("venv", ".venv")]
    return [python for python in dict.fromkeys(found) if python.exists()]


def _check(version: str) -> None:
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        what = f"this is Hermes {version}; the plugin supports {SUPPORTED[0]} to {SUPPORTED[-1]}"
        raise HermesUnsupported(what, version=version)


def _run(python: Path, code: str, *arguments: str) -> str | None:
    """The output of a program; None if it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter of Hermes, which the operator uses already
            [python, "-I", "-B", "-c", code, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
