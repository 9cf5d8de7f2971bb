"""Choosing the confinement of a program from the configured mode and the support of this system.

Rule 1: a mode that the configuration names is used or refused; no weaker mode replaces it.
Rule 2: "auto" selects the strongest mode that works, and notes why no stronger one is used.
Rule 3: bubblewrap is tried once per process, with a program's options and a time limit: it is often installed on a
        system that forbids it, as in most containers.

systemd-run is not a mode: bubblewrap has the same features (mount and process namespaces, no new privileges) without a
service manager, through whose socket a program could start itself unconfined.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from holdfast.tools.mcp.launcher import ROOT_KEEPS, landlock_version

PROBE_WAIT_S = 5.0
FAULT_CHARS_MAX = 200
NO_LANDLOCK = "this system has no Landlock (Linux 5.13 and later)"
CAPABILITY_NAMES = {
    0: "CAP_CHOWN",
    1: "CAP_DAC_OVERRIDE",
    3: "CAP_FOWNER",
    4: "CAP_FSETID",
    5: "CAP_KILL",
    6: "CAP_SETGID",
    7: "CAP_SETUID",
    10: "CAP_NET_BIND_SERVICE",
}


class Confine(Enum):
    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfinementSupport:
    """The support of this system. `fault` says why bubblewrap cannot be used; empty if it can."""

    bwrap: str = ""  # its file
    fault: str = ""
    landlock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The confinement of a program. `note` says why "auto" selected no stronger one."""

    mode: Confine = Confine.NONE
    note: str = ""
    bwrap: str = ""
    landlock: bool = False  # inside bubblewrap too


class ModeUnsupported(Exception):
    """The configuration names a mode that this system does not support."""


def choose(wanted: Confine, support: ConfinementSupport) -> Confinement:
    """Raises `ModeUnsupported`."""
    lacks_bwrap = bool(support.fault)
    if wanted is Confine.NONE:
        return Confinement()
    if wanted is Confine.BUBBLEWRAP and lacks_bwrap:
        raise ModeUnsupported(support.fault)
    if wanted is Confine.LANDLOCK and not support.landlock:
        raise ModeUnsupported(NO_LANDLOCK)
    if wanted is not Confine.LANDLOCK and not lacks_bwrap:
        return Confinement(mode=Confine.BUBBLEWRAP, bwrap=support.bwrap, landlock=support.landlock)
    note = f"bubblewrap is not used: {support.fault}" if wanted is Confine.AUTO else ""
    if support.landlock:
        return Confinement(mode=Confine.LANDLOCK, note=note, landlock=True)
    return Confinement(note=f"{note}; {NO_LANDLOCK}")


def support_for(wanted: Confine) -> ConfinementSupport:
    """The support for the wanted mode; bubblewrap is tried only if the mode may use it."""
    landlock = landlock_version() > 0
    if wanted not in {Confine.AUTO, Confine.BUBBLEWRAP}:
        return ConfinementSupport(landlock=landlock, fault="it was not tried")
    bwrap, fault = _tried(os.environ.get("PATH", ""))
    return ConfinementSupport(bwrap=bwrap, fault=fault, landlock=landlock)


@lru_cache(maxsize=4)
def _tried(path: str) -> tuple[str, str]:
    """The path of bubblewrap, and why it cannot be used."""
    bwrap = shutil.which("bwrap", path=path)
    if bwrap is None:
        return "", "PATH has no bwrap; install the package bubblewrap"
    words = [*wrapped(bwrap, hidden=[Path(os.devnull).parent / "shm"], own=None), bwrap, "--version"]
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own PATH
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return bwrap, f"{bwrap} does not work here: {type(error).__name__}"
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0][:FAULT_CHARS_MAX]
        return bwrap, f"{bwrap} does not work here: {said or f'exit code {done.returncode}'}"
    return bwrap, ""


def wrapped(bwrap: str, *, hidden: Sequence[Path], own: Path | None, folder: Path | None = None) -> list[str]:
    """The bubblewrap command line, without the program's own.

    The program sees every file that Holdfast sees, except the hidden ones: an empty read-only folder replaces a hidden
    folder, and a file that cannot be opened a hidden file. `own` stays accessible. The program has its own process
    namespace, so it sees no process outside, and it ends with Holdfast.
    """
    words = [bwrap, "--die-with-parent", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc"]
    words += ["--cap-drop", "ALL"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        words += [word for one in sorted(ROOT_KEEPS) for word in ("--cap-add", CAPABILITY_NAMES[one])]
    folders, files = _covers(hidden)
    words += [word for path in folders for word in ("--tmpfs", str(path))]
    words += [word for path in files for word in ("--ro-bind", os.devnull, str(path))]
    if own is not None:
        words += ["--bind", str(own), str(own)]
    words += [word for path in folders for word in ("--remount-ro", str(path))]
    if folder is not None:
        words += ["--chdir", str(folder)]
    return [*words, "--"]


def _covers(hidden: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The folders and files to cover, without missing ones and those below a covered folder."""
    real = sorted({path.resolve() for path in hidden})
    folders = [path for path in real if path.is_dir()]
    outer = [path for path in folders if _above(path).isdisjoint(folders)]
    files = [path for path in real if path.is_file() and _above(path).isdisjoint(outer)]
    return outer, files


def _above(path: Path) -> frozenset[Path]:
    return frozenset(path.parents)
