"""Process hardening: protects this process from others of the same user. The command line calls it once, first.

Rule 1: no other process of the same user may attach to this one, read its memory or `/proc/<pid>/environ`, and no core
        file is written (Linux: not dumpable). Root may.
Rule 2: secrets are removed from the environment: from `os.environ`, so no child process inherits them, and from the
        block that the system shows as `/proc/<pid>/environ`. `variables` still returns them.
Rule 3: new files are private to the owner, regardless of the umask.

Importing the library into another program changes nothing in that program: only `harden` does any of this.
"""

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

PRIVATE_UMASK = 0o077
PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48  # of /proc/self/stat, counted after the program's name
_SECRET_PARTS = frozenset(
    {"AUTH", "COOKIE", "CREDENTIAL", "CREDENTIALS", "DSN", "KEY", "KEYS", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD"}
    | {"PAT", "PGPASSWORD", "SECRET", "SECRETS", "TOKEN", "TOKENS"}
)
_PLACES = frozenset({"DIR", "FILE", "PATH"})  # HOLDFAST_KEY_FILE names the place of a secret
_ENDINGS = ("KEY", "PASSWORD", "SECRET", "TOKEN")
# Variables that Python or libraries may read at any time, and that hold no secret.
_NEEDED = re.compile(
    r"PATH|HOME|LANG|LC_\w+|TZ|TMPDIR|TEMP|TMP|TERM|USER|LOGNAME|SHELL|SSL_CERT_(FILE|DIR)|XDG_\w+|PYTHON\w*|\w+_PROXY",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"\A[a-z][a-z0-9+.-]*://[^/?#\s]*:[^/?#\s]*@", re.IGNORECASE)


class _Kept:
    """The variables removed from the environment. One instance per process, like the environment."""

    secrets: Mapping[str, str] = MappingProxyType({})
    is_hardened = False
    umask: int | None = None  # the previous umask


def harden() -> None:
    """Protect this process until it ends."""
    _forbid_dumps()
    _Kept.umask = os.umask(PRIVATE_UMASK)
    _Kept.is_hardened = True
    conceal(name for name, value in os.environ.items() if looks_secret(name, value))


def conceal(names: Iterable[str]) -> None:
    """Remove these variables from the environment. Does nothing without `harden`: the process is another program's."""
    if not _Kept.is_hardened:
        return
    taken = {name: os.environ[name] for name in set(names) if name in os.environ and not is_needed(name)}
    _Kept.secrets = MappingProxyType({**_Kept.secrets, **taken})
    for name in taken:
        del os.environ[name]
    if taken:
        _overwrite(frozenset(os.fsencode(name) for name in taken))


def variables() -> Mapping[str, str]:
    """The environment at the start of the process, including concealed variables."""
    return {**os.environ, **_Kept.secrets} if _Kept.secrets else os.environ


def umask_before() -> int | None:
    """The original umask, for programs that are not part of Holdfast; None if it was not changed."""
    return _Kept.umask


def is_needed(name: str) -> bool:
    """Whether this process still reads the variable itself. A password in a proxy's address stays readable."""
    return _NEEDED.fullmatch(name) is not None


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret, by its name or because its value is an address with a password."""
    parts = name.upper().split("_")
    if parts[-1] in _PLACES:
        return False
    return not _SECRET_PARTS.isdisjoint(parts) or parts[-1].endswith(_ENDINGS) or _LOGIN.match(value) is not None


def _forbid_dumps() -> None:
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    with contextlib.suppress(ValueError, OSError):  # the hard limit is already lower
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _overwrite(names: frozenset[bytes]) -> None:
    """Overwrite the variables in the process's initial environment block. `environ` no longer points to them."""
    if sys.platform != "linux":
        return
    try:
        with Path("/proc/self/stat").open("rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:  # without /proc no process can read the block
        return
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0") if start else ():
        if entry.partition(b"=")[0] in names:
            ctypes.memset(at, 0, len(entry))
        at += len(entry) + 1
