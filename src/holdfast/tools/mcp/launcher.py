"""The launcher of an MCP program: a script that confines its own process and then executes the program.

    python -I -S launcher.py '{"deny": [...], "allow": [...], ...}' /usr/bin/program argument ...

It uses only the standard library, and imports no module of Holdfast.

Rule 1: the program gets the environment variables that `keep` names, and no other.
Rule 2: with `landlock` the program may access every file that the user may, except those below `deny`; paths below
        `allow` are accessible again. It cannot read the memory or the environment of a process outside, signal it, or
        gain privileges.
Rule 3: with `user` the program runs as that user, in that user's groups only, permanently.
Rule 4: if a requested confinement is not available, the program is not started.

Inside bubblewrap the data folder is already hidden; Landlock applies there too, if the system has it, because a file
that is replaced by a rename loses its cover.

Landlock (Linux 5.13) has only allow rules. So every neighbour of the path to a denied place gets a rule; a file that is
created beside that path later stays inaccessible until the program is started again.
"""

import ctypes
import json
import os
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system call numbers, equal on every architecture
VERSION_FLAG, PATH_BENEATH = 1, 1
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL = 23, 24, 47, 4
PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 38, 39
CAPABILITIES_V3 = 0x20080522
SCOPE_SIGNAL = 1 << 1
EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 14
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
RIGHTS = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
}  # by version; later ones add none that we handle
SCOPED_SINCE = 6
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service: root needs them for its own files. The
# others let root bypass every rule to memory, disks and files.
ROOT_KEEPS = frozenset({0, 1, 3, 4, 5, 6, 7, 10})
CAPABILITIES_MAX = 64
CANNOT_CONFINE, CANNOT_START = 125, 127


class _Head(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Capabilities(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


class ConfinementRefused(OSError):
    """The system cannot confine this process."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version() -> int:
    """0 without Landlock: another system, an older kernel, or a kernel that was started without it."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(CREATE_RULESET, None, 0, VERSION_FLAG))


def _call(*arguments: Any) -> int:  # noqa: ANN401
    made: int = ctypes.CDLL(None, use_errno=True).syscall(*arguments)
    return made


def confine(deny: Sequence[str], allow: Sequence[str]) -> None:
    """Confine this process and its children permanently. Raises `ConfinementRefused`."""
    version = landlock_version()
    if not version:
        raise ConfinementRefused("this system has no Landlock")
    handled = RIGHTS[min(version, max(RIGHTS))]
    attributes = _Ruleset(handled, 0, SCOPE_SIGNAL if version >= SCOPED_SINCE else 0)
    size = ctypes.sizeof(attributes) if version >= SCOPED_SINCE else ctypes.sizeof(ctypes.c_uint64)
    ruleset = _call(CREATE_RULESET, ctypes.byref(attributes), size, 0)
    if ruleset < 0:
        raise ConfinementRefused(f"no ruleset could be made: {os.strerror(ctypes.get_errno())}")
    _drop_capabilities()
    denied = tuple(os.path.realpath(path) for path in deny)
    for path in (*beside("/", denied), *allow):
        _allow(ruleset, path, handled)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0:
        raise ConfinementRefused(f"new privileges could not be forbidden: {os.strerror(ctypes.get_errno())}")
    if _call(RESTRICT_SELF, ruleset, 0) < 0:
        raise ConfinementRefused(f"the rules could not be enforced: {os.strerror(ctypes.get_errno())}")
    os.close(ruleset)


def _drop_capabilities() -> None:
    """Leave the program no capability but `ROOT_KEEPS`, even as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    head, sets = _Head(CAPABILITIES_V3, 0), (_Capabilities * 2)()
    if libc.capget(ctypes.byref(head), sets) < 0:
        raise ConfinementRefused(f"capabilities could not be read: {os.strerror(ctypes.get_errno())}")
    kept = sum(1 << one for one in ROOT_KEEPS)  # all in the first of the two words
    has_limit = libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1  # then a program cannot gain any
    for one, mask in zip(sets, (kept, 0), strict=True):
        one.inheritable = 0
        if has_limit:
            one.permitted, one.effective = one.permitted & mask, one.effective & mask
    if libc.capset(ctypes.byref(head), sets) < 0:
        raise ConfinementRefused(f"capabilities could not be given up: {os.strerror(ctypes.get_errno())}")
    libc.prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL, 0, 0, 0)  # Linux before 4.3 has none
    if has_limit or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return  # a program of another user cannot gain capabilities
    for capability in set(range(CAPABILITIES_MAX)) - ROOT_KEEPS:
        is_there = libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1
        if is_there and libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            raise ConfinementRefused(f"capability {capability} of root could not be given up; do not run as root")


def take_user(name: str, uid: int, gid: int) -> None:
    """Switch to another user permanently. Raises `ConfinementRefused`."""
    try:
        os.initgroups(name, gid)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise ConfinementRefused(f"it could not become the user {name}: {error.strerror}") from error
    if not hasattr(os, "getresuid") or (os.getresuid(), os.getresgid()) != ((uid, uid, uid), (gid, gid, gid)):
        raise ConfinementRefused(f"it could not become the user {name}")


def beside(path: str, denied: Sequence[str]) -> Iterator[str]:
    """The topmost paths that cover everything below `path` except the denied places."""
    if path in denied:
        return
    if not any(place.startswith(path.rstrip("/") + "/") for place in denied):
        yield path
        return
    try:
        names = os.listdir(path)  # noqa: PTH208
    except OSError:  # a folder that cannot be listed gets no rule
        return
    for name in names:
        yield from beside(os.path.join(path, name), denied)  # noqa: PTH118 - runs without pathlib


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add one rule. A link gets none: its target has a rule of its own, or is denied."""
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    mode = os.fstat(place).st_mode
    if not stat.S_ISLNK(mode):
        rule = _Beneath(rights if stat.S_ISDIR(mode) else rights & OF_FILES, place)
        if _call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0) < 0:
            raise ConfinementRefused(f"{path} could not be allowed: {os.strerror(ctypes.get_errno())}")
    os.close(place)


def become(order: Mapping[str, Any], command: Sequence[str]) -> None:
    """Execute the program. Returns only by raising `OSError`."""
    environment = {name: os.environ[name] for name in order["keep"] if name in os.environ}
    if order["umask"] is not None:
        os.umask(order["umask"])
    if order["user"] is not None:
        take_user(*order["user"])
    for folder in order["folders"]:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - runs without pathlib
    if order["landlock"]:
        confine(order["deny"], order["allow"])
    elif order["confined"]:
        _drop_capabilities()
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and a program inherits ignored signals
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execve(command[0], list(command), environment)  # noqa: S606 - that is its purpose


def main() -> None:
    order, command = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        become(order, command)
    except ConfinementRefused as error:
        print(f"holdfast: not started, because it could not be confined: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(CANNOT_CONFINE)
    except OSError as error:
        print(f"holdfast: {command[0]} could not be started: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
