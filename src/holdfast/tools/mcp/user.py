"""The user that an MCP program runs as, when it is not the one that Holdfast runs as. Only root can choose."""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.kernel.errors import ConfigInvalid

NAME_CHARS_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUser:
    name: str
    uid: int
    gid: int
    home: Path | None  # the folder of this user; None when there is none that belongs to the user


def read_user(key: str, name: str) -> ProgramUser:
    """Raises `ConfigInvalid` for a user who does not exist, for root, and where Holdfast may not change users."""
    where, shown = f"{key}.user", f"{key}.user is {name[:NAME_CHARS_SHOWN]!r}"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        why = "only root may start a program as another user, and Holdfast does not run as root; take it out"
        raise ConfigInvalid(f"{shown}: {why}", key=where)
    try:
        import pwd  # noqa: PLC0415 - not on Windows

        found = pwd.getpwnam(name)
    except (ImportError, KeyError, ValueError) as error:
        why = "this system has no such user; make one, as with `useradd --system --create-home`"
        raise ConfigInvalid(f"{shown}: {why}", key=where) from error
    if found.pw_uid == 0:
        raise ConfigInvalid(f"{shown}: this is root; name a user without its rights", key=where)
    return ProgramUser(name=name, uid=found.pw_uid, gid=found.pw_gid, home=_home(Path(found.pw_dir), found.pw_uid))


def _home(folder: Path, uid: int) -> Path | None:
    try:
        return folder if folder.is_dir() and folder.stat().st_uid == uid else None
    except OSError:
        return None
