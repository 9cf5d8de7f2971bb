"""How an MCP program is started: what it is given, where it runs, as whom, and how it is confined.

Two steps stand between Holdfast and the program. `bwrap` makes the view of the system (confinement.py), where it is
used; inside it confine.py gives up rights, for good, and becomes the program.

Rule 1: of the environment it gets PATH, the language and the time zone, a HOME and a TMPDIR of its own, and what its
        table names.
Rule 2: it runs in a folder and a session of its own, with no descriptor but its three streams.
Rule 3: where the system can forbid it, the program reaches neither the data folder, nor the configuration, nor the
        files that hold secrets, nor the processes outside. `McpSettings.confinement` says what is in force.
"""

import errno
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from mcp import StdioServerParameters

from holdfast.kernel.folders import make_private_folder
from holdfast.tools.mcp import confine
from holdfast.tools.mcp.confinement import Confine, wrapped
from holdfast.tools.mcp.settings import McpSettings

INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
TEMPORARY = "tmp"


def how_to_start(settings: McpSettings, home: Path) -> StdioServerParameters:
    """The command line, environment and folder of the program. Raises `OSError` when there is no such program."""
    temporary = home / TEMPORARY
    if settings.user is None:
        make_private_folder(temporary)  # otherwise the step makes it, as that user: the home is not ours to write in
    folder = settings.folder or home
    environment = environment_of(settings, home, temporary)
    words = (found(settings.command[0], environment.get("PATH")), *settings.command[1:])
    if sys.platform != "win32":
        words = (sys.executable, "-I", "-S", confine.__file__, _order(settings, home, environment), *words)
    if settings.confined.bwrap:
        words = (*wrapped(settings.confined.bwrap, hidden=settings.hidden, own=home, folder=folder), *words)
    command, *arguments = words
    return StdioServerParameters(command=command, args=arguments, env=environment, cwd=folder)


def environment_of(settings: McpSettings, home: Path, temporary: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, "HOME": str(home), "TMPDIR": str(temporary), **settings.environment}


def found(program: str, path: str | None) -> str:
    """The program's file; one that is named by a path begins where Holdfast was started."""
    file = shutil.which(program, path=path)
    if file is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return str(Path(file).absolute())


def _order(settings: McpSettings, home: Path, environment: Mapping[str, str]) -> str:
    """What `confine` is told. It holds names and paths, and no secret: others see a command line."""
    return json.dumps(
        {
            "keep": sorted(environment),
            "umask": settings.umask,
            "user": None if settings.user is None else [settings.user.name, settings.user.uid, settings.user.gid],
            "folders": [] if settings.user is None else [str(home / TEMPORARY)],
            "confined": settings.confined.mode is not Confine.NONE,
            "landlock": settings.confined.landlock,
            "deny": [str(path) for path in settings.hidden],
            "allow": [str(home)],
        }
    )
