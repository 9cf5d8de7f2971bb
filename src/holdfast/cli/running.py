"""Runs a command to its end and prints every error in the form that people and programs expect."""

import asyncio
import errno
import gc
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import typer

from holdfast.api.errors import InternalError
from holdfast.audit.action import ActorKind, By
from holdfast.audit.actor import acting_as
from holdfast.cli import IMPORT_THRESHOLD
from holdfast.cli.output import INTERNAL, INTERRUPTED, OK, USAGE, WRONG, print_error, print_errors
from holdfast.kernel.errors import ConfigInvalid, ConfirmationRequired, HoldfastError, InvalidUnicode, Remedy
from holdfast.kernel.hardening import variables

EVENT_LOOP = "HOLDFAST_EVENT_LOOP"
COLLECT_THRESHOLD = 700  # Python's own
Work = Callable[[], Coroutine[Any, Any, int]]


class NoRoom(HoldfastError):
    """The disk has no space left for the output of the command."""

    remedy = Remedy.REPAIR
    hint = "Free disk space or redirect the output, then check whether the command took effect."


def refuse_argument(argument: str, *, as_json: bool) -> NoReturn:
    print_error(InvalidUnicode(f"the argument {argument!a} is not UTF-8"), as_json=as_json)
    sys.exit(USAGE)


def outcome(work: Work, *, as_json: bool) -> int:
    """Run a command to its end. Returns its exit code."""
    if gc.get_threshold()[0] == IMPORT_THRESHOLD:  # modules stay until the end, so no collection needs to visit them
        gc.freeze()
        gc.set_threshold(COLLECT_THRESHOLD)
    try:
        factory = loop_factory(variables().get(EVENT_LOOP, ""))
        with acting_as(local_user()), asyncio.Runner(loop_factory=factory) as runner:
            code = runner.run(work())
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.BadParameter:
        raise  # typer prints wrong usage
    except BrokenPipeError:
        # The reader has closed the pipe (`holdfast show S | head`); otherwise Python complains again at exit.
        sys.stdout = None
        return OK
    except Exception as error:  # noqa: BLE001 - the top of every command
        return _failed(error, as_json=as_json)
    return code


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Makes the event loop of that name; None is Python's own. Raises `ConfigInvalid`."""
    if name in ("", "asyncio"):
        return None
    if name != "uvloop":
        raise ConfigInvalid(f"{EVENT_LOOP} is {name!r}; it must be asyncio or uvloop")
    try:
        import uvloop
    except ModuleNotFoundError as error:
        hint = f"Install holdfast[uvloop], or unset {EVENT_LOOP}."
        raise ConfigInvalid(f"{EVENT_LOOP} is uvloop, which is not installed", hint=hint) from error
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _failed(error: Exception, *, as_json: bool) -> int:
    match error:
        case HoldfastError():
            known = error
        case OSError(errno=errno.ENOSPC):
            known, as_json = NoRoom(f"there is no room left to write to: {error}"), False
            sys.stdout = None  # otherwise Python complains again at exit
        case _:
            traceback.print_exception(error)
            hint = "Please report this error with the lines above."
            known = InternalError(f"{type(error).__name__}: {error}", hint=hint)
    if known.others:
        print_errors((known, *known.others), as_json=as_json)
    else:
        print_error(known, as_json=as_json)
    return exit_code(known)


def exit_code(error: HoldfastError) -> int:
    if isinstance(error, ConfirmationRequired):
        return USAGE
    return INTERNAL if error.remedy is Remedy.REPORT or error.code == "store_broken" else WRONG


def local_user() -> By:
    """The actor of a command for the audit trail: the user of the process, and the user who called `sudo`."""
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
