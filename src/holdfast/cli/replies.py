"""`holdfast replies` and `holdfast resend`: replies to chat platforms."""

from typing import Annotated

import typer

from holdfast.api.shapes.replies import OutgoingReply, replies_view, reply_view
from holdfast.cli.command import Runtime, visitor
from holdfast.cli.options import AfterNumber, Limit, OnlyAgent
from holdfast.cli.output import Output, TextTable, when
from holdfast.kernel.ids import ReplyId
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply_sql import list_replies


@visitor()
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
    ]
    noted = "; ".join(note for note in notes if note)
    return f"{one.state} ({noted})" if noted else one.state


@visitor(act="reply.resent", on="reply")
async def resend(
    runtime: Runtime,
    reply: Annotated[str, typer.Argument(help="The id, as `holdfast replies --state uncertain` shows it.")],
) -> Output:
    """Send an uncertain or failed reply again.

    If the platform already has the reply, it appears in the chat twice.

    \b
    Examples:
      holdfast resend rep_01jd...
    """
    found = await runtime.resend(ReplyId(reply))
    return Output(reply_view(found), f"{reply} is {found.state}; a running `holdfast up` sends it.")
