"""`holdfast reload`: the serving process reads its configuration again."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from holdfast.audit.actor import acting
from holdfast.cli.command import Invocation, command
from holdfast.cli.output import OK, WRONG, Output, Part
from holdfast.cli.reload_files import ReloadAnswer, ReloadRequest, is_ready, read_answer, remove, write_request
from holdfast.cli.terminal import HANGUP
from holdfast.kernel.errors import HoldfastError, Remedy
from holdfast.kernel.files import unwritable
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.runtime.app import is_served, owner_of

LOOK_EVERY_MS = 50
WAIT_S = 30.0


class NotServed(HoldfastError):
    """No process serves the data folder."""

    remedy = Remedy.REPAIR
    hint = "Start `holdfast up`, which reads the configuration at its start."


class ReloadUnsupported(HoldfastError):
    """The serving process cannot be asked for a reload."""

    remedy = Remedy.REPAIR
    hint = "Restart it: it reads the configuration at its start."


class ReloadUnanswered(HoldfastError):
    """The serving process did not answer in time."""

    remedy = Remedy.RETRY
    hint = "Look into `holdfast log`. The reload may still happen."


@command()
async def reload(
    invocation: Invocation,
    wait: Annotated[
        float, typer.Option("--wait", min=0.1, max=600, help="How long to wait for the answer, in seconds.")
    ] = WAIT_S,
) -> Output:
    """Read holdfast.toml again without a restart.

    The running `holdfast up` reads the file again; SIGHUP does the same. Instructions, models, tools, limits, access
    and the other settings of agents change at once, and new agents begin to answer. Turns that run end with the
    settings that they began with. What needs a restart is listed: [server], channels, the memory providers and MCP
    servers of an agent that exists already, and the end of an agent.

    If the file has an error, everything stays as it was, and all errors are listed: exit code 1.

    \b
    Examples:
      holdfast reload
      holdfast reload --json
    """
    folder = invocation.folder
    if not folder.is_dir() or not is_served(folder):
        raise NotServed("no process serves this data folder")
    answer = await _asked(folder, wait)
    text: list[Part] = [f"{one.code}: {one.message}\n  hint: {one.hint}" for one in answer.problems]
    if not answer.ok:
        text.append("The previous configuration stays in force.")
    text += [f"in force  {key}" for key in answer.applied]
    text += [f"restart   {key}: needs a restart of `holdfast up`" for key in answer.restart]
    if answer.ok and not answer.applied and not answer.restart:
        text.append("Nothing has changed.")
    return Output(answer, *text, code=OK if answer.ok else WRONG)


async def _asked(folder: Path, wait_s: float) -> ReloadAnswer:
    """Ask the serving process and wait for its answer."""
    owner, number = owner_of(folder), getattr(signal, HANGUP, None)
    if number is None or owner is None or not is_ready(folder, owner):
        raise ReloadUnsupported("the serving process takes no requests: it is starting, older, or runs on Windows")
    by, clock, tasks = acting(), SystemClock(), AsyncTasks()
    request = f"{SystemEntropy().bits(64):016x}"
    try:
        write_request(folder, ReloadRequest(id=request, user=by.id, label=by.label, origin=by.origin))
    except OSError as error:
        raise unwritable(f"{folder} cannot be written", error, path=str(folder)) from error
    try:
        _wake(int(owner.partition(":")[0]), number)
        begun = clock.now()
        while (answer := read_answer(folder, request)) is None:
            if owner_of(folder) != owner:
                raise NotServed("the serving process ended before it answered")
            if clock.now() - begun > wait_s * 1000:
                raise ReloadUnanswered(f"the serving process did not answer within {wait_s:g} s")
            await tasks.sleep(LOOK_EVERY_MS)
    finally:
        with suppress(OSError):
            remove(folder, request)
    return answer


def _wake(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError as error:
        raise NotServed("the serving process has just ended") from error
    except PermissionError as error:
        hint = "Run the command as the user that runs `holdfast up`."
        raise ReloadUnsupported("the serving process belongs to another user", hint=hint) from error
