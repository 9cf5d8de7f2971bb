"""`holdfast attachment`: save an attachment to a file."""

import os
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Runtime, visitor
from holdfast.cli.output import Output
from holdfast.inbox.addressing import attachment_hash
from holdfast.inbox.attachment_sql import find_attachment, read_attachment
from holdfast.kernel.disk_space import is_out_of_space, unwritable
from holdfast.kernel.errors import AttachmentNotFound, InvalidInput


@visitor()
async def attachment(
    runtime: Runtime,
    hash: Annotated[str, typer.Argument(metavar="HASH", help="The SHA-256, as `holdfast trace` shows it.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new file; an existing one is not changed.")],
) -> Output:
    """Save an attachment of a message to a file.

    The content comes from the sender and may be harmful: open it with care.

    \b
    Examples:
      holdfast attachment 9f86d081... --out picture.png
    """
    wanted = attachment_hash(hash)
    found = await runtime.db.read(find_attachment(wanted))
    body = await runtime.db.read(read_attachment(wanted))
    if found is None or body is None:
        raise AttachmentNotFound(f"there is no attachment {wanted}", hash=wanted)
    _write(out, body)
    return Output(
        {"hash": wanted, "name": found.name, "media_type": found.media_type, "bytes": len(body)},
        f"wrote    {out}\nsent as  {found.name} ({found.media_type}, {len(body)} bytes)",
    )


def _write(out: Path, body: bytes) -> None:
    """Raises `InvalidInput` if the file exists or cannot be written."""
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.write(body)
    except FileExistsError as error:
        raise InvalidInput(f"--out {out}: the file exists already and was not changed; name another file") from error
    except OSError as error:
        if is_out_of_space(error):
            out.unlink(missing_ok=True)  # an incomplete file is useless
            raise unwritable(f"--out {out}", error) from error
        raise InvalidInput(f"--out {out}: the file cannot be written: {error.strerror}") from error
