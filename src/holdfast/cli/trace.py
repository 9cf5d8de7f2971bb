"""`holdfast trace`: what happened to one message, found by any id that a person may have."""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import typer

from holdfast.api.shapes.error_report import error_view
from holdfast.api.shapes.shapes import MessageStatus, message_view
from holdfast.api.shapes.status import listed_view, step_view
from holdfast.cli.command import OnlyAgent, Runtime, visitor
from holdfast.cli.output import (
    UTF_8,
    WRONG,
    Heading,
    Output,
    Part,
    TextTable,
    facts,
    print_error,
    terminal_columns,
    what_delivered_means,
    when,
)
from holdfast.cli.partial_id import AmbiguousId
from holdfast.cli.timeline_text import timeline_lines
from holdfast.cli.times import zone
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import MessageNotFound
from holdfast.kernel.ids import MessageId
from holdfast.monitor.message_list import ListedMessage
from holdfast.monitor.message_list_sql import read_listed
from holdfast.monitor.timeline import Timeline, timeline
from holdfast.monitor.trace import TraceFacts
from holdfast.monitor.trace_sql import FOUND_MAX, find_messages, near_messages, read_trace

CANDIDATES_MAX = 20
SEARCH = "search with `holdfast messages --text WORDS`, --sender, --own-id or --since"


@visitor(times=True)
async def trace(
    runtime: Runtime,
    id: Annotated[str, typer.Argument(metavar="ID", help="An id of any kind, as listed above.")],
    agent: OnlyAgent = None,
    chat: Annotated[str | None, typer.Option("--chat", help="Only messages of this chat.")] = None,
) -> Output:
    """Show what happened to a message, step by step, with times.

    ID is the id of a message or its beginning, the sender's own id, a turn (SESSION/N), a session, a reply, a delivery,
    an approval, a platform's or provider's receipt, a tool call, or the request id of a failed attempt. If it stands
    for several messages, they are listed. Ids of platforms, providers and tool calls are found for the newest messages
    only.

    Exit code 1 if there is no such message, or several.

    \b
    Examples:
      holdfast trace msg_01k...
      holdfast trace 42 --agent main --chat ada
      holdfast trace ses_01k.../3 --utc
      holdfast trace rep_01k... --json
    """
    wanted = check_part("id", id.strip())
    found = await runtime.db.read(find_messages(wanted, agent=agent or "", chat=chat or ""))
    listed = [one for one in await runtime.db.read(read_listed(found)) if _is_of(one, agent, chat)]
    if not listed:
        raise await _unknown(runtime, wanted)
    if len({(one.session, one.turn) if one.turn is not None else one.message for one in listed}) > 1:
        return _ambiguous(wanted, listed)
    first, *others = listed
    read = await runtime.db.read(read_trace(MessageId(first.message)))
    return _traced(replace(read, message=runtime.explained(read.message)), first, others)


def _is_of(message: ListedMessage, agent: str | None, chat: str | None) -> bool:
    return (agent is None or message.agent == agent) and (chat is None or message.chat == chat)


# --- one message -----------------------------------------------------------------------------------


def _traced(read: TraceFacts, listed: ListedMessage, others: Sequence[ListedMessage]) -> Output:
    told, view = timeline(read), message_view(read.message)
    plain = (sys.stdout.encoding or "utf-8").lower() not in UTF_8
    width = terminal_columns()
    lines = timeline_lines(told, zone(), width=width, plain=plain)
    about = {
        "accepted": when(view.accepted_at),
        "from": f"{view.sender}, own id {view.id}",
        "chat": f"{view.chat} of agent {view.agent}",
        "turn": f"{view.session}/{view.turn}" if view.turn is not None else view.session,
        "and with": f"{', '.join(one.message for one in others)} in one turn" if others else None,
        "words": listed.text,
    }
    text: list[Part] = [Heading(f"{view.message}  {view.state}"), _wrapped(facts(about), width, indent=10), "", *lines]
    return Output(_view(read, told, view), *text, *_afterwards(view, width))


def _wrapped(text: str, width: int, *, indent: int = 0) -> str:
    lines = (textwrap.wrap(line, width, subsequent_indent=" " * indent) for line in text.splitlines())
    return "\n".join(line for wrapped in lines for line in wrapped)


def _afterwards(view: MessageStatus, width: int) -> Iterator[Part]:
    """The attachments, what delivered means, an open question, and the words of the reply."""
    if view.attachments:
        kept = ((one.hash, one.name, one.media_type, one.bytes) for one in view.attachments)
        yield ""
        yield TextTable(("attachment", "name", "type", "bytes"), kept)
    meanings = what_delivered_means(view.deliveries)
    if meanings:
        yield ""
        yield _wrapped("\n".join(meanings), width)
    if view.awaiting is not None and view.awaiting.cut:
        shown = f"`holdfast approvals show {view.awaiting.approval}`"
        yield ""
        yield _wrapped(f"To approve, add the digest that {shown} shows.", width)
    if view.reply is not None and view.reply.text:
        yield ""
        yield Heading("Reply")
        yield view.reply.text
        if view.reply.draft is not None:
            yield ""
            yield f"its draft: {view.reply.draft}"


def _view(read: TraceFacts, told: Timeline, view: MessageStatus) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(view),
        "at": read.at,
        "verdict": told.verdict,
        "needs_you": told.needs_you,
        "steps": [step_view(step) for step in told.steps],
    }


# --- none, or several ------------------------------------------------------------------------------


async def _unknown(runtime: Runtime, wanted: str) -> MessageNotFound:
    near = await runtime.db.read(read_listed(await runtime.db.read(near_messages(wanted))))
    close = [f"{one.message} ({_known_by(one, wanted)}, {when(one.accepted_at)})" for one in near]
    hint = f"The nearest are {'; '.join(close)}. Or {SEARCH}." if close else f"No message is near it: {SEARCH}."
    return MessageNotFound(f"no message has the id {wanted!r}", hint=hint, message=wanted)


def _known_by(message: ListedMessage, wanted: str) -> str:
    return message.sender if wanted.startswith("msg_") else f"own id {message.event_id} of {message.sender}"


def _ambiguous(wanted: str, found: Sequence[ListedMessage]) -> Output:
    """The candidates on stdout, and the error on stderr."""
    count = f"at least {FOUND_MAX}" if len(found) >= FOUND_MAX else str(len(found))
    error = AmbiguousId(f"{wanted!r} stands for {count} messages")
    print_error(error, as_json=False)
    rows = (
        (one.message, when(one.accepted_at), one.agent, one.chat, one.sender, one.event_id, one.state, one.text)
        for one in found[:CANDIDATES_MAX]
    )
    table = TextTable(("message", "accepted", "agent", "chat", "sender", "own id", "state", "text"), rows)
    more = [f"and {len(found) - CANDIDATES_MAX} more"] if len(found) > CANDIDATES_MAX else []
    view = {**msgspec.to_builtins(error_view(error)), "candidates": [listed_view(one) for one in found]}
    return Output(view, table, *more, code=WRONG)
