"""Who acts at the command line, for the audit trail: the user that the process runs as."""

import os
import sys

from holdfast.audit.action import ActorKind, By


def local_user() -> By:
    """The user of this machine, by the system's own word where it has one; a user behind `sudo` is named as well."""
    behind = os.environ.get("SUDO_USER", "")
    label = f"sudo by {behind}" if behind else ""
    return By(kind=ActorKind.USER, id=_name(), label=label, origin=f"command line, process {os.getpid()}")


def _name() -> str:
    if sys.platform != "win32":
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:  # a container may run as a user without a name
            return f"uid {os.getuid()}"
    return os.environ.get("USERNAME", "user")
