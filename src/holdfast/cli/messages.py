"""`holdfast attachment`: a file of a message. `replies`: replies to chat platforms."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.api.shapes.monitoring import OutgoingReply, replies_view
from holdfast.cli.command import AfterNumber, Limit, OnlyAgent, Runtime, visitor
from holdfast.cli.output import Output, TextTable, decision, when, write_new
from holdfast.inbox.attachment_sql import find_attachment, read_attachment
from holdfast.inbox.chat_message import attachment_hash
from holdfast.kernel.errors import AttachmentNotFound
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply_sql import list_replies


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


@visitor(times=True)
async def replies(
    runtime: Runtime,
    *,
    state: Annotated[ReplyState | None, typer.Option("--state", help="Only replies in this state.")] = None,
    agent: OnlyAgent = None,
    channel: Annotated[str | None, typer.Option("--channel", help="Only replies of this channel.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 50,
) -> Output:
    """List replies to chat platforms, newest first.

    \b
    Examples:
      holdfast replies
      holdfast replies --state uncertain
      holdfast replies --channel telegram --state failed --json
    """
    wanted = state.value if state else None
    asked = list_replies(state=wanted, agent=agent, channel=channel, after=after, limit=limit)
    found = await runtime.db.read(asked)
    view = replies_view(found, limit)
    rows = (
        (one.id, _state(one), one.address, one.attempt, when(one.due_at), one.reason or one.receipt)
        for one in view.replies
    )
    return Output(view, TextTable(("reply", "state", "to", "attempt", "next try", "reason or receipt"), rows))


def _state(one: OutgoingReply) -> str:
    notes = [
        "possible duplicate" if one.possible_duplicate else "",
        "an unfinished draft may remain in the chat" if one.draft == "unknown" else "",
        decision(one.state, one.decided_by),
    ]
    noted = "; ".join(note for note in notes if note)
    return f"{one.state} ({noted})" if noted else one.state
