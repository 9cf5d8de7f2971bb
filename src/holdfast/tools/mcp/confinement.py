"""How a program is confined: what the configuration wants, what this system offers, and what becomes of both.

Rule 1: a mode that the configuration names is used or refused. Nothing weaker takes its place.
Rule 2: "auto" takes the strongest mode that works here, and says why it is not a stronger one.
Rule 3: bubblewrap is tried once for each process, with the options that a program gets and for a bounded time: it is
        often installed where the system forbids it, as in most containers.

systemd-run is no mode: what it adds for a program (mount and process namespaces, no new rights) bubblewrap does too,
without a service manager and without its socket, over which a program could have itself started unconfined.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from holdfast.tools.mcp.confine import ROOT_KEEPS, landlock_version

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
    """What this system can do. `fault` says why bubblewrap cannot be used; empty when it can."""

    bwrap: str = ""  # its file
    fault: str = ""
    landlock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What is in force for a program. `note` says why "auto" took nothing stronger."""

    mode: Confine = Confine.NONE
    note: str = ""
    bwrap: str = ""
    landlock: bool = False  # inside bubblewrap too


class NotOffered(Exception):
    """The configuration names a mode that this system does not have."""


def choose(wanted: Confine, offer: ConfinementSupport) -> Confinement:
    """Raises `NotOffered`."""
    lacks_bwrap = bool(offer.fault)
    if wanted is Confine.NONE:
        return Confinement()
    if wanted is Confine.BUBBLEWRAP and lacks_bwrap:
        raise NotOffered(offer.fault)
    if wanted is Confine.LANDLOCK and not offer.landlock:
        raise NotOffered(NO_LANDLOCK)
    if wanted is not Confine.LANDLOCK and not lacks_bwrap:
        return Confinement(mode=Confine.BUBBLEWRAP, bwrap=offer.bwrap, landlock=offer.landlock)
    note = f"bubblewrap is not used: {offer.fault}" if wanted is Confine.AUTO else ""
    if offer.landlock:
        return Confinement(mode=Confine.LANDLOCK, note=note, landlock=True)
    return Confinement(note=f"{note}; {NO_LANDLOCK}")


def offer_for(wanted: Confine) -> ConfinementSupport:
    """What the system offers, as far as it matters: bubblewrap is not tried for those who do not want it."""
    landlock = landlock_version() > 0
    if wanted not in {Confine.AUTO, Confine.BUBBLEWRAP}:
        return ConfinementSupport(landlock=landlock, fault="it was not tried")
    bwrap, fault = _tried(os.environ.get("PATH", ""))
    return ConfinementSupport(bwrap=bwrap, fault=fault, landlock=landlock)


@lru_cache(maxsize=4)
def _tried(path: str) -> tuple[str, str]:
    """The file of bubblewrap, and what is wrong with it."""
    bwrap = shutil.which("bwrap", path=path)
    if bwrap is None:
        return "", "there is no bwrap on PATH; install the package bubblewrap"
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
    """The command line before that of the program.

    The program sees every file that Holdfast sees, except the hidden ones: an empty folder that cannot be written
    stands in the place of a folder, a file that cannot be opened in that of a file. `own` is there again. It has a
    process list of its own, so it finds no process outside, and it ends with Holdfast.
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
    """The folders and the files to cover. One that does not exist cannot be, and one below a folder is already."""
    real = sorted({path.resolve() for path in hidden})
    folders = [path for path in real if path.is_dir()]
    outer = [path for path in folders if _above(path).isdisjoint(folders)]
    files = [path for path in real if path.is_file() and _above(path).isdisjoint(outer)]
    return outer, files


def _above(path: Path) -> frozenset[Path]:
    return frozenset(path.parents)
