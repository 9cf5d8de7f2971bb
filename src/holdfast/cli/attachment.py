"""`holdfast attachment`: save an attachment to a file."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Runtime, visitor
from holdfast.cli.new_file import write_new
from holdfast.cli.output import Output
from holdfast.inbox.addressing import attachment_hash
from holdfast.inbox.attachment_sql import find_attachment, read_attachment
from holdfast.kernel.errors import AttachmentNotFound


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
    write_new(out, body, option="--out")
    return Output(
        {"hash": wanted, "name": found.name, "media_type": found.media_type, "bytes": len(body)},
        f"wrote    {out}\nsent as  {found.name} ({found.media_type}, {len(body)} bytes)",
    )
