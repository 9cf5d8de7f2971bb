"""`holdfast attachment`: what came with a message, into a file."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Data, Json


def attachment(
    hash: Annotated[str, typer.Argument(metavar="HASH", help="Its SHA-256, as `holdfast trace` shows it.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to; nothing is overwritten.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write what came with a message to a file.

    Whoever sent it chose what is in it: open it with care.

    \b
    Examples:
      holdfast attachment 9f86d081... --out picture.png
    """
    from holdfast.cli.running import run

    run(lambda: _attachment(hash, out, data, as_json=as_json), as_json=as_json)


async def _attachment(hash_: str, out: Path, data: Path | None, *, as_json: bool) -> int:
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK
    from holdfast.inbox.addressing import attachment_hash
    from holdfast.inbox.attachment_sql import find_attachment, read_attachment
    from holdfast.kernel.errors import AttachmentNotFound

    wanted = attachment_hash(hash_)
    async with visiting(data) as runtime:
        found = await runtime.db.read(find_attachment(wanted))
        body = await runtime.db.read(read_attachment(wanted))
    if found is None or body is None:
        raise AttachmentNotFound(f"there is no attachment {wanted}", hash=wanted)
    _write(out, body)
    if as_json:
        print_json({"hash": wanted, "name": found.name, "media_type": found.media_type, "bytes": len(body)})
    else:
        print(f"wrote    {out}\nsent as  {visible(found.name)} ({visible(found.media_type)}, {len(body)} bytes)")
    return OK


def _write(out: Path, body: bytes) -> None:
    """Raises `InvalidInput` for a place that cannot be written, or holds something."""
    import os

    from holdfast.kernel.disk_space import is_out_of_space, unwritable
    from holdfast.kernel.errors import InvalidInput

    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.write(body)
    except FileExistsError as error:
        raise InvalidInput(f"--out {out}: it exists already and was left as it is; name another file") from error
    except OSError as error:
        if is_out_of_space(error):
            out.unlink(missing_ok=True)  # half of it is of no use
            raise unwritable(f"--out {out}", error) from error
        raise InvalidInput(f"--out {out}: it cannot be written: {error.strerror}") from error
