"""The actor of a command for the audit trail: the user that runs the process."""

import os
import sys

from holdfast.audit.action import ActorKind, By


def local_user() -> By:
    """The user of the process, and the user who called `sudo`."""
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
