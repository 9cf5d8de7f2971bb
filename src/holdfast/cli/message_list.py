"""`holdfast messages`: list and search the messages of all chats."""

from collections.abc import Iterator
from typing import Annotated

import typer

from holdfast.api.shapes.status import messages_view
from holdfast.cli.command import Limit, OnlyAgent, Runtime, visitor
from holdfast.cli.output import Output, TextTable, when
from holdfast.cli.times import parse_time
from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import Instant
from holdfast.monitor.message_list import MessageFilter, MessagePage
from holdfast.monitor.message_list_sql import list_messages

TIME = "30m, 12h, 7d, a date such as 2026-11-17, or '2026-11-17 18:02'"


@visitor(times=True)
async def messages(
    runtime: Runtime,
    *,
    agent: OnlyAgent = None,
    chat: Annotated[str, typer.Option("--chat", help="Only messages of this chat.")] = "",
    sender: Annotated[str, typer.Option("--sender", help="Only messages of this sender.")] = "",
    text: Annotated[str, typer.Option("--text", help="Only messages with these words; case does not matter.")] = "",
    own_id: Annotated[
        str, typer.Option("--own-id", help="Only messages whose id at the sender begins with this.")
    ] = "",
    state: Annotated[MessageState | None, typer.Option("--state", help="Only messages in this state.")] = None,
    since: Annotated[str, typer.Option("--since", help=f"Only messages since this time: {TIME}.")] = "",
    until: Annotated[str, typer.Option("--until", help="Only messages until this time.")] = "",
    before: Annotated[str, typer.Option("--before", help="The value of `next` on the previous page.")] = "",
    limit: Limit = 50,
) -> Output:
    """List and search messages, newest first.

    Words are searched in a limited number of messages at a time; the output says how far back it looked and how to go
    on.

    \b
    Examples:
      holdfast messages
      holdfast messages --text "order b-1077" --since 7d
      holdfast messages --agent main --chat ada --state waiting
      holdfast messages --sender telegram:17 --until 2026-11-17 --json
    """
    wanted = MessageFilter(
        agent=agent or "",
        chat=chat,
        sender=sender,
        text=text,
        own_id=own_id,
        state=state.value if state is not None else "",
        since=_time(since, "--since"),
        until=_time(until, "--until"),
    )
    page = await runtime.db.read(list_messages(wanted, before=before, limit=limit))
    rows = (
        (one.message, when(one.accepted_at), one.agent, one.chat, one.sender, one.state, one.text or one.reason)
        for one in page.messages
    )
    nothing = "none yet; `holdfast send` sends one" if wanted == MessageFilter() else "none"
    table = TextTable(("message", "accepted", "agent", "chat", "sender", "state", "text"), rows, nothing)
    return Output(messages_view(page), table, *_more(page))


def _time(text: str, option: str) -> Instant | None:
    return parse_time(text, option=option) if text else None


def _more(page: MessagePage) -> Iterator[str]:
    if page.searched_back_to is not None:
        yield f"Searched back to {when(page.searched_back_to)}."
    if page.next is not None:
        yield f"Earlier ones: --before {page.next}"
