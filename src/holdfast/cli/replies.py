"""`holdfast replies` and `holdfast resend`: answers on their way to a platform."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, Json, ReplyStateName

if TYPE_CHECKING:
    from holdfast.api.shapes.replies import OutgoingReply

LIMIT = 50


def replies(
    *,
    state: Annotated[ReplyStateName | None, typer.Option("--state", help="Only those in this state.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="Only those of this channel.")] = None,
    after: Annotated[int, typer.Option("--after", min=0, help="`next` of the page before.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = LIMIT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List replies to the chat platforms, newest first.

    \b
    Examples:
      holdfast replies
      holdfast replies --state uncertain
      holdfast replies --channel telegram --state failed --json
    """
    from holdfast.cli.running import run

    run(
        lambda: _replies(data, state=state, agent=agent, channel=channel, after=after, limit=limit, as_json=as_json),
        as_json=as_json,
    )


async def _replies(
    data: Path | None,
    *,
    state: str | None,
    agent: str | None,
    channel: str | None,
    after: int,
    limit: int,
    as_json: bool,
) -> int:
    from holdfast.api.shapes.replies import replies_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK
    from holdfast.outbox.reply import reply_state

    wanted = reply_state(state)
    async with visiting(data) as runtime:
        found = await runtime.replies.list(state=wanted, agent=agent, channel=channel, after=after, limit=limit)
    view = replies_view(found, limit)
    if as_json:
        print_json(view)
        return OK
    rows = [
        (
            one.id,
            _state(one),
            one.address,
            one.attempt,
            when(one.due_at) if one.due_at is not None else "",
            one.reason or one.receipt,
        )
        for one in view.replies
    ]
    print_table(("reply", "state", "to", "attempt", "next try", "reason or receipt"), rows)
    return OK


def _state(one: "OutgoingReply") -> str:
    notes = [
        "possible duplicate" if one.possible_duplicate else "",
        "an unfinished draft may stand in the chat" if one.draft == "unknown" else "",
    ]
    said = "; ".join(note for note in notes if note)
    return f"{one.state} ({said})" if said else one.state


def resend(
    reply: Annotated[str, typer.Argument(help="Its id, as `holdfast replies --state uncertain` shows it.")],
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Send an uncertain or failed reply again. If the platform has it already, it stands there twice.

    \b
    Examples:
      holdfast resend rep_01jd...
    """
    from holdfast.cli.running import run

    run(lambda: _resend(reply, data, as_json=as_json), as_json=as_json)


async def _resend(reply: str, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.replies import reply_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK
    from holdfast.kernel.ids import ReplyId

    async with visiting(data, act="reply.resent", on=reply) as runtime:
        found = await runtime.replies.resend(ReplyId(reply))
    if as_json:
        print_json(reply_view(found))
    else:
        print(f"{visible(reply)} is {found.state}; a running `holdfast up` sends it.")
    return OK
