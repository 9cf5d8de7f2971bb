"""The program behind warm.py: imports some modules once, then forks a process for each command that it is asked to run.

A command is what follows `python`: `-m holdfast ...` or `-c code ...`. A request is the length of its JSON with the
descriptors of stdin, stdout, stderr and a status socket, then the JSON. The status socket is told the process id and,
when the process has ended, how. The program ends with its client.
"""

import atexit
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

LENGTH, STATUS = struct.Struct("!I"), struct.Struct("!i")
DESCRIPTORS = 4
# What commands and `holdfast up` with the practice model import while they run.
WHILE_RUNNING = (
    "concurrent.futures.thread",
    "holdfast.api.app",
    "holdfast.api.server",
    "holdfast.cli.opening",
    "holdfast.providers.files",
    "holdfast.providers.local",
    "pydantic.functional_validators",
    "pydantic.type_adapter",
    "uvicorn.lifespan.off",
)


def main() -> None:
    client, modules = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    for module in modules or every_command():
        import_module(module)
    serve(client)


def every_command() -> list[str]:
    """The modules of all commands, and what they import while they run."""
    from holdfast.cli.commands import PANELS

    places = {one.place.partition(":")[0] for panel in PANELS.values() for one in panel.values()}
    return [*(f"holdfast.cli.{place}" for place in sorted(places)), *WHILE_RUNNING]


def serve(client: socket.socket) -> None:
    ended, wakes = socket.socketpair()
    ended.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([client, ended], [], [])
        if ended in ready:
            ended.recv(4096)
            report_ended(running)
        if client in ready:
            header, descriptors, _, _ = socket.recv_fds(client, LENGTH.size, DESCRIPTORS)
            if not header:
                return
            request = json.loads(read(client, LENGTH.unpack(header)[0]))
            for module in request["preload"]:
                import_module(module)
            pid = os.fork()
            if pid == 0:
                become(request, descriptors[:3])
            for one in descriptors[:3]:
                os.close(one)
            running[pid] = socket.socket(fileno=descriptors[3])
            running[pid].sendall(STATUS.pack(pid))


def read(client: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = client.recv(length - len(found))
        if not more:
            sys.exit("the client ended in the middle of a request")
        found += more
    return found


def report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as told, suppress(BrokenPipeError):  # nobody may be waiting for it
            told.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))


def become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the process of a command: its streams, environment and arguments, and nothing else of this one's."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
    os.closerange(3, 1 << 10)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process lives
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    how, what, *arguments = request["command"]
    sys.argv = [how if how == "-c" else what, *arguments]
    code = 1
    try:
        if how == "-c":
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        else:
            assert what == "holdfast", what
            from holdfast.cli import main as run

            run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - what Python itself does at the top of a program
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for written in (sys.stdout, sys.stderr):
            if written is not None:
                written.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
