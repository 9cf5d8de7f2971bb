"""`holdfast trace`: what happened to one message, on one screen."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, Json

if TYPE_CHECKING:
    from holdfast.api.shapes.awaited import Awaited


def trace(
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The id that accepting returned.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show what happened to a message.

    Accepted, queued, turn, reply, and each memory provider's receipt.

    \b
    Examples:
      holdfast trace msg_01k...
      holdfast trace msg_01k... --json
    """
    from holdfast.cli.running import run

    run(lambda: _trace(message, data, as_json=as_json), as_json=as_json)


async def _trace(message: str, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.shapes import message_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_heading, print_json, print_table, visible, what_delivered_means, when
    from holdfast.cli.running import OK
    from holdfast.inbox.address import check_part
    from holdfast.kernel.ids import MessageId

    async with visiting(data) as runtime:
        found = await runtime.trace(MessageId(check_part("message", message)))
    view = message_view(found)
    if as_json:
        print_json(view)
        return OK
    print_heading(f"{view.message}  {view.state}")
    turn = f"{view.turn}, attempt {view.attempt}" + (f", {found.phase}" if found.phase else "")
    facts = {
        "accepted": f"{when(view.accepted_at)} as {view.id!r} from {view.sender!r}",
        "chat": f"{view.chat!r} of agent {view.agent}",
        "behind": f"{view.queued_behind} others" if view.queued_behind else None,
        "session": view.session,
        "turn": turn if view.turn is not None else None,
        "awaits": _awaits(view.awaiting) if view.awaiting else None,
        "reason": view.reason,
        "reply": view.reply.state if view.reply else "none yet",
        "draft": view.reply.draft if view.reply else None,
    }
    print("\n".join(f"{name:<9} {visible(what)}" for name, what in facts.items() if what))
    if view.attachments:
        kept = [(one.hash, one.name, one.media_type, one.bytes) for one in view.attachments]
        print_table(("attachment", "name", "type", "bytes"), kept)
    if view.deliveries:
        rows = [(one.provider, one.place, one.state, one.attempt, one.receipt, one.reason) for one in view.deliveries]
        print_table(("provider", "place", "state", "attempt", "receipt", "reason"), rows)
        for line in what_delivered_means(view.deliveries):
            print(line)
    if view.reply:
        print(f"\n{visible(view.reply.text)}")
    return OK


def _awaits(asked: "Awaited") -> str:
    if not asked.cut:
        return f"/approve {asked.approval} or /deny {asked.approval}"
    shown = f"`holdfast approvals show {asked.approval}`"
    return f"/approve {asked.approval} DIGEST, with the digest that {shown} shows, or /deny {asked.approval}"
