"""`holdfast backup` and `restore`: copies of the data folder."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.cli.command import Invocation, command, home_of
from holdfast.cli.output import Output, when
from holdfast.kernel.errors import InvalidInput

IN_POSTGRES = (
    "A PostgreSQL store is backed up by PostgreSQL: `pg_dump --format=custom`, restored by `pg_restore` into an empty"
    " database. See docs/howto/back-up.md."
)
TargetArgument = Annotated[
    Path,
    typer.Argument(
        metavar="TARGET",
        help="A new folder, or a new file that ends with .tar or .tar.gz. In a folder that exists, a new one is made.",
    ),
]
SourceArgument = Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder or file of the backup.")]
Moved = Annotated[
    bool,
    typer.Option(
        "--moved", help="The original was stopped before the backup and never ran again: send what waits in it."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Verify the backup, and restore nothing.")]


@command()
async def backup(invocation: Invocation, target: TargetArgument) -> Output:
    """Back up the data folder, also while a process serves it.

    The backup has the store, the index, notes, attachments, settings, tokens and logs, as of one moment, and a
    manifest with the digest of every file. It is verified before it gets its name. An encrypted folder stays encrypted
    in its backup; keep its key elsewhere. Whoever can read the backup of a folder that is not encrypted can read
    everything in it.

    \b
    Examples:
      holdfast backup /backups
      holdfast backup holdfast-monday.tar.gz
    """
    from holdfast.cli.progress import progress_of_parts
    from holdfast.kernel.machine import SystemClock
    from holdfast.runtime.backups import back_up

    _refuse_postgres(invocation)
    folder, place = invocation.stored, home_of(target)
    if place.is_dir():
        place /= f"holdfast-{datetime.fromtimestamp(SystemClock().now() / 1000, UTC):%Y%m%dT%H%M%SZ}"
    with progress_of_parts("backup") as tell:
        made = back_up(folder, place, tell)
    size = sum(one.size for one in made.files)
    text = [f"{place}: {len(made.files)} files, {size:,} bytes, verified; digest {made.digest}"]
    if made.encrypted:
        text.append("It is encrypted. The key is not in it.")
    if made.left_out:
        text += ["Left out:", *(f"  {name}" for name in made.left_out)]
    view = {"backup": str(place), **msgspec.to_builtins(made)}
    return Output(view, *text)


@command(times=True)
async def restore(
    invocation: Invocation, source: SourceArgument, *, moved: Moved = False, dry_run: DryRun = False
) -> Output:
    """Restore a backup into an empty data folder.

    The folder is made if it does not exist. The backup is verified first: every digest, every page, the number of
    rows. What was under way when it was made may have happened since. So replies that waited become uncertain and are
    not sent, and memory providers are asked before they get a delivery. Messages that waited are answered at the next
    start, also if the original has answered them since.

    \b
    Examples:
      holdfast restore /backups/holdfast-20261119T220000Z --data ./data
      holdfast restore holdfast-monday.tar.gz --dry-run
    """
    from holdfast.cli.progress import progress_of_parts
    from holdfast.monitor.status import plural
    from holdfast.runtime import backups

    _refuse_postgres(invocation)
    place, folder = home_of(source), invocation.folder
    if dry_run:
        with progress_of_parts("verify") as tell:
            found = backups.verify(place, tell)
        told = f"{place} is whole: made {when(found.made_at)} by Holdfast {found.holdfast}, {len(found.files)} files"
        return Output({"backup": str(place), "restored": False, **msgspec.to_builtins(found)}, told)
    with progress_of_parts("restore") as tell:
        done = backups.restore(place, folder, tell, moved=moved)
    settled = done.settled
    text = [f"{folder} is restored from {place}, made {when(done.manifest.made_at)}: {len(done.manifest.files)} files."]
    if settled.replies:
        open_ = plural(settled.replies, "reply", "replies")
        text.append(f"Uncertain now, and not sent: {open_} that waited (`holdfast replies --state uncertain`).")
    if settled.deliveries:
        open_ = plural(settled.deliveries, "delivery", "deliveries")
        text.append(f"Uncertain now, and the provider is asked: {open_} that waited.")
    if settled.messages:
        text.append(f"Answered at the next start: {plural(settled.messages, 'message', 'messages')} that waited.")
    view = {
        "backup": str(place),
        "restored": True,
        **msgspec.to_builtins(done.manifest),
        "replies_uncertain": settled.replies,
        "deliveries_uncertain": settled.deliveries,
        "messages_waiting": settled.messages,
    }
    return Output(view, *text)


def _refuse_postgres(invocation: Invocation) -> None:
    if re.match(r"postgres(ql)?(\+\w+)?:", str(invocation.data)):
        raise InvalidInput("this command copies a data folder, and this is a PostgreSQL address", hint=IN_POSTGRES)
