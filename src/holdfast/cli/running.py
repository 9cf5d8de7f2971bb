"""Running a command: its coroutine, its exit code, and every error in the form that people and programs expect."""

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import typer

from holdfast.cli.output import print_error
from holdfast.core.errors import HoldfastError, Remedy

OK, WRONG, USAGE, CONTRADICTION, AWAITING, INTERNAL = 0, 1, 2, 3, 4, 70
INTERRUPTED = 130

Work = Callable[[], Coroutine[Any, Any, int]]


class InternalError(HoldfastError):
    """Something went wrong inside."""

    code = "internal_error"
    remedy = Remedy.REPORT
    hint = "Please report this with the lines above."


def run(work: Work, *, as_json: bool) -> NoReturn:
    """Run the work to its end and leave with its exit code."""
    raise typer.Exit(_outcome(work, as_json=as_json))


def _outcome(work: Work, *, as_json: bool) -> int:
    try:
        return asyncio.run(work())
    except HoldfastError as error:
        print_error(error, as_json=as_json)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`holdfast show S | head`); Python would complain again at exit.
        sys.stdout = None
        return OK
    except Exception as error:  # noqa: BLE001 - the top of every command
        traceback.print_exc()
        print_error(InternalError(f"{type(error).__name__}: {error}"), as_json=as_json)
        return INTERNAL


def exit_code(error: HoldfastError) -> int:
    return INTERNAL if error.remedy is Remedy.REPORT or error.code == "store_broken" else WRONG
