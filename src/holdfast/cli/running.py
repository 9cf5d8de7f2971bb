"""Running a command: its coroutine, its exit code, and every error in the form that people and programs expect."""

import asyncio
import errno
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import typer

from holdfast.cli.output import print_error
from holdfast.kernel.errors import HoldfastError, InvalidUnicode, Remedy

OK, WRONG, USAGE, CONTRADICTION, AWAITING, INTERNAL = 0, 1, 2, 3, 4, 70
INTERRUPTED = 130

Work = Callable[[], Coroutine[Any, Any, int]]


class InternalError(HoldfastError):
    """Something went wrong inside."""

    code = "internal_error"
    remedy = Remedy.REPORT
    hint = "Please report this with the lines above."


class NoRoom(HoldfastError):
    """There is no room left for what the command writes, on stdout or in a file."""

    code = "no_room"
    remedy = Remedy.REPAIR
    hint = "Make room on the disk, or send the output elsewhere; then look whether what was asked for is done."


def refuse_argument(argument: str, *, as_json: bool) -> NoReturn:
    print_error(InvalidUnicode(f"the argument {argument!a} is not UTF-8"), as_json=as_json)
    sys.exit(USAGE)


def run(work: Work, *, as_json: bool) -> NoReturn:
    """Run the work to its end and leave with its exit code."""
    raise typer.Exit(_outcome(work, as_json=as_json))


def _outcome(work: Work, *, as_json: bool) -> int:
    from holdfast.audit.actor import acting_as
    from holdfast.cli.actor import local_user

    try:
        with acting_as(local_user()):
            code = asyncio.run(work())
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`holdfast show S | head`); Python would complain again at exit.
        sys.stdout = None
        return OK
    except Exception as error:  # noqa: BLE001 - the top of every command
        return _failed(error, as_json=as_json)
    return code


def _failed(error: Exception, *, as_json: bool) -> int:
    match error:
        case HoldfastError():
            known = error
        case OSError(errno=errno.ENOSPC):
            known, as_json = NoRoom(f"there is no room left to write to: {error}"), False
            sys.stdout = None  # or Python complains again at exit
        case _:
            traceback.print_exception(error)
            known = InternalError(f"{type(error).__name__}: {error}")
    print_error(known, as_json=as_json)
    return exit_code(known)


def exit_code(error: HoldfastError) -> int:
    return INTERNAL if error.remedy is Remedy.REPORT or error.code == "store_broken" else WRONG
