"""How an MCP program is started: its environment, folder, user and confinement.

Two steps stand between Holdfast and the program: `bwrap`, if it is used, makes the view of the system (confinement.py);
launcher.py then drops privileges permanently and executes the program.

Rule 1: the program gets PATH, the language, the time zone, its own HOME and TMPDIR, and the variables of its table.
Rule 2: it runs in its own folder and session, with no descriptor but its three streams.
Rule 3: if the system supports it, the program cannot access the data folder, the configuration, files with secrets, or
        processes outside. `McpSettings.confinement` names the mode.
"""

import errno
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from mcp import StdioServerParameters

from holdfast.kernel.files import make_private_folder
from holdfast.tools.mcp import launcher
from holdfast.tools.mcp.confinement import Confine, wrapped
from holdfast.tools.mcp.settings import McpSettings

INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
TEMPORARY = "tmp"


def start_parameters(settings: McpSettings, home: Path) -> StdioServerParameters:
    """The command line, environment and folder of the program. Raises `OSError` if the program does not exist."""
    temporary = home / TEMPORARY
    if settings.user is None:
        make_private_folder(temporary)  # otherwise the launcher makes it as that user, who owns the home
    folder = settings.folder or home
    environment = environment_of(settings, home, temporary)
    words = (program_path(settings.command[0], environment.get("PATH")), *settings.command[1:])
    if sys.platform != "win32":
        words = (sys.executable, "-I", "-S", launcher.__file__, _instructions(settings, home, environment), *words)
    if settings.confined.bwrap:
        words = (*wrapped(settings.confined.bwrap, hidden=settings.hidden, own=home, folder=folder), *words)
    command, *arguments = words
    return StdioServerParameters(command=command, args=arguments, env=environment, cwd=folder)


def environment_of(settings: McpSettings, home: Path, temporary: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, "HOME": str(home), "TMPDIR": str(temporary), **settings.environment}


def program_path(program: str, path: str | None) -> str:
    """The absolute path of the program. A relative one starts at Holdfast's working directory."""
    file = shutil.which(program, path=path)
    if file is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return str(Path(file).absolute())


def _instructions(settings: McpSettings, home: Path, environment: Mapping[str, str]) -> str:
    """The launcher's instructions: names and paths without secrets, since other users can see a command line."""
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
