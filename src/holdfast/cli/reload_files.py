"""The files through which `holdfast reload` and the serving process talk: a request with an id, and its answer.

Only the owner of the data folder can write them. A signal wakes the serving process, which answers every request that
it finds before it reads the configuration, so an answer is never about an older file.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.api.shapes.error_report import ErrorDetail

READY = "reload.ready"  # holds the identity of the process that answers requests
REQUEST, ANSWER = ".request", ".answer"
PREFIX = "reload-"


class ReloadRequest(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    user: str
    label: str
    origin: str


class ReloadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    applied: Sequence[str] = ()
    restart: Sequence[str] = ()
    problems: Sequence[ErrorDetail] = ()


def write_request(folder: Path, request: ReloadRequest) -> None:
    """Raises `OSError`."""
    _write(folder / f"{PREFIX}{request.id}{REQUEST}", msgspec.json.encode(request))


def take_requests(folder: Path) -> list[ReloadRequest]:
    """The requests that wait, which are removed."""
    found = []
    for path in sorted(folder.glob(f"{PREFIX}*{REQUEST}")):
        with suppress(OSError, ValueError):  # it was withdrawn, or is no request
            found.append(msgspec.json.decode(path.read_bytes(), type=ReloadRequest))
        path.unlink(missing_ok=True)
    return found


def has_request(folder: Path) -> bool:
    return any(folder.glob(f"{PREFIX}*{REQUEST}"))


def write_answer(folder: Path, id: str, answer: ReloadAnswer) -> None:
    """The command says that it got no answer if the disk has no room for one."""
    with suppress(OSError):
        _write(folder / f"{PREFIX}{id}{ANSWER}", msgspec.json.encode(answer))


def read_answer(folder: Path, id: str) -> ReloadAnswer | None:
    try:
        return msgspec.json.decode((folder / f"{PREFIX}{id}{ANSWER}").read_bytes(), type=ReloadAnswer)
    except (OSError, ValueError):
        return None


def remove(folder: Path, id: str) -> None:
    for kind in (REQUEST, ANSWER):
        with suppress(OSError):
            (folder / f"{PREFIX}{id}{kind}").unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Remove what an earlier process or command left."""
    for path in (folder / READY, *folder.glob(f"{PREFIX}*{REQUEST}"), *folder.glob(f"{PREFIX}*{ANSWER}")):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def set_ready(folder: Path, owner: str | None) -> None:
    with suppress(OSError):
        _write(folder / READY, (owner or "").encode())


def is_ready(folder: Path, owner: str | None) -> bool:
    """Whether the process that serves the folder answers requests."""
    try:
        return owner is not None and (folder / READY).read_bytes() == owner.encode()
    except OSError:
        return False


def _write(file: Path, body: bytes) -> None:
    """Another process sees the whole file or none."""
    draft = file.with_suffix(f".{os.getpid()}.draft")
    handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as opened:
        opened.write(body)
    draft.replace(file)
