"""The client of the Holdfast process beside Hermes: questions over a private local socket, and starting the process.

This module uses the standard library alone (see spool.py). A question never raises: without an answer in time the
result is None, and Hermes goes on without recall.
"""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .spool import FOLDER  # noqa: TID252 - this folder is copied; its package has another name there

ADDRESS = "serve.json"  # the socket of the process that serves the home, and its process id
LAUNCH = "plugin.json"  # written by `holdfast hermes install`: how the process is started
LOG = "serve.log"
ANSWER_BYTES_MAX = 4 << 20
START_EVERY_S = 60.0
_started: dict[str, float] = {}  # the time of the last start, by home
_children: list["subprocess.Popen[bytes]"] = []
_starting = threading.Lock()


def ask(home: str | Path, question: Mapping[str, Any], budget_s: float) -> dict[str, Any] | None:
    """The answer of the process that serves the home; None if there is none within the budget."""
    ends_at = time.monotonic() + budget_s
    address = read_json(Path(home) / FOLDER / ADDRESS).get("socket")
    if not isinstance(address, str) or not hasattr(socket, "AF_UNIX"):
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(max(0.001, budget_s))
            line.connect(address)
            line.sendall(json.dumps(question).encode() + b"\n")
            answer = _receive(line, ends_at)
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _receive(line: socket.socket, ends_at: float) -> object:
    received = b""
    while not received.endswith(b"\n") and len(received) < ANSWER_BYTES_MAX:
        left = ends_at - time.monotonic()
        if left <= 0:
            return None
        line.settimeout(left)
        piece = line.recv(65_536)
        if not piece:
            return None
        received += piece
    return json.loads(received)


def start(home: str | Path) -> bool:
    """Start the process beside Hermes if `install` said how and it does not run. Does not wait for it."""
    with _starting:
        _children[:] = [child for child in _children if child.poll() is None]
        launch = read_json(Path(home) / FOLDER / LAUNCH)
        command = launch.get("command")
        now = time.monotonic()
        recent = now - _started.get(str(home), -START_EVERY_S) < START_EVERY_S
        if not isinstance(command, list) or not launch.get("start", True) or recent or is_served(home):
            return False
        _started[str(home)] = now
        return _launch(Path(home), [str(part) for part in command], launch.get("environment"))


def _launch(home: Path, command: list[str], extra: object) -> bool:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment.pop("VIRTUAL_ENV", None)
    if isinstance(extra, dict):
        environment.update({str(name): str(value) for name, value in extra.items()})
    try:
        log = os.open(home / FOLDER / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            child = subprocess.Popen(  # noqa: S603 - the command that the operator's `install` wrote
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        finally:
            os.close(log)
    except OSError:
        return False
    _children.append(child)
    return True


def is_served(home: str | Path) -> bool:
    """Whether a process listens on the socket of the home."""
    answer = ask(home, {"op": "ping"}, 0.5)
    return answer is not None and answer.get("ok") is True


def read_json(file: Path) -> dict[str, Any]:
    """A small JSON file; empty if it is missing or malformed."""
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
