"""A private local socket: one JSON line is a question, one JSON line its answer. Only the owner's processes reach it.

The path of a socket is limited to about 100 bytes. In a home with a longer path the socket is in a private temporary
folder; the address file names it in either case.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.files import unwritable

PATH_BYTES_MAX = 100
QUESTION_BYTES_MAX = 4 << 20
Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


@asynccontextmanager
async def listening(folder: Path, address: Path, answer: Answer) -> AsyncIterator[Path]:
    """Answer questions until the block ends. Raises `StoreReadOnly`, and `InvalidInput` on systems without sockets."""
    if not hasattr(asyncio, "start_unix_server"):
        raise InvalidInput("this system has no local sockets; run Hermes and Holdfast on Linux, macOS or WSL")
    place, is_temporary = _place(folder)
    try:
        place.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(_handler(answer), place, limit=QUESTION_BYTES_MAX)
        place.chmod(0o600)
        _write_private(address, {"socket": str(place), "pid": os.getpid()})
    except OSError as error:
        raise unwritable(f"the socket {place}", error, path=str(place)) from error
    try:
        async with server:
            yield place
    finally:
        _remove(address, place, is_temporary=is_temporary)


def _remove(address: Path, place: Path, *, is_temporary: bool) -> None:
    address.unlink(missing_ok=True)
    place.unlink(missing_ok=True)
    if is_temporary:
        shutil.rmtree(place.parent, ignore_errors=True)


def _place(folder: Path) -> tuple[Path, bool]:
    place = folder / "serve.sock"
    if len(os.fsencode(place)) <= PATH_BYTES_MAX:
        return place, False
    return Path(tempfile.mkdtemp(prefix="holdfast-")) / "serve.sock", True


def _handler(answer: Answer) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            question = json.loads(await reader.readline())
            reply = await answer(question) if isinstance(question, dict) else {"ok": False, "error": "not an object"}
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):  # the plugin stopped waiting, or it is no plugin
            return
        finally:
            writer.close()

    return handle


def _write_private(file: Path, value: dict[str, object]) -> None:
    """Replace a file as a whole: a reader sees the old one or the new one."""
    draft = file.with_suffix(".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        json.dump(value, opened)
    draft.replace(file)
