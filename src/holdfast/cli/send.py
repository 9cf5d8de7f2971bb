"""`holdfast send`: put one message into the mailbox of a chat, and optionally wait for the reply."""

import asyncio
import sys
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from holdfast.api.shapes.shapes import AcceptedMessage, accepted_view, message_view
from holdfast.cli.command import AgentName, Chat, Invocation, command
from holdfast.cli.output import AWAITING, OK, WRONG, Output
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import InvalidUnicode, MessageTooLarge

REMEMBERED_MS = 2_000  # the longest wait for memory after the reply
TEXT_BYTES_MAX = 16 * 1024 * 1024  # the highest value of `limits.message_bytes`


@command(config=True)
async def send(
    invocation: Invocation,
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; `-` reads it from stdin.")],
    agent: AgentName = None,
    chat: Chat = "terminal",
    sender: Annotated[str | None, typer.Option("--sender", help="The sender.", show_default="the chat")] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="An id of your choice; a repeated message with the same id is ignored.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the reply and print it.")] = False,
) -> Output:
    """Send a message to a chat.

    The message is durable when the command returns, whether or not `holdfast up` is running.

    With --wait the command waits for the reply; if no process serves the data folder, the command serves it until the
    reply is complete. If a tool call requires approval, the command ends with exit code 4; `/approve ID` sent with
    --wait waits for the rest.

    \b
    Examples:
      holdfast send "My cat is called Byron."
      holdfast send --chat family --id 42 "What is my cat called?" --wait
    """
    message = {"chat": chat, "text": _text(text), "agent": agent, "sender": sender, "id": id}
    return await (_answered if wait else _accepted)(invocation, message)


def _text(given: str) -> str:
    """Raises `InvalidUnicode`, and `MessageTooLarge` for more bytes than any agent accepts."""
    if given != "-":
        return given
    raw = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
    if len(raw) > TEXT_BYTES_MAX:
        raise MessageTooLarge(f"stdin has more than {TEXT_BYTES_MAX} bytes; nothing was sent")
    try:
        return raw.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidUnicode(f"byte {error.start} of stdin is not UTF-8; nothing was sent") from error


async def _accepted(invocation: Invocation, message: dict[str, Any]) -> Output:
    async with invocation.visiting(make=True) as runtime:
        outcome = accepted_view(await runtime.accept(**message, trusted=True))
    text = [f"{outcome.status} {outcome.message}"]
    if isinstance(outcome, AcceptedMessage):
        if outcome.queued_behind:
            text.append(f"{outcome.queued_behind} other messages are waiting before it.")
        if not invocation.is_served:
            text.append("No process serves this data folder: the message waits until `holdfast up` runs.")
    return Output(outcome, *text)


async def _answered(invocation: Invocation, message: dict[str, Any]) -> Output:
    async with invocation.serving_or_visiting() as (runtime, is_serving):
        sent = await runtime.send(**message)
        try:
            trace = await runtime.outcome(sent)
            if trace.released is not None:
                trace = await runtime.outcome(trace.released)
        except asyncio.CancelledError:  # Ctrl-C: the message stays accepted
            told = f"{sent} is accepted and will be answered; `holdfast trace {sent}` shows its state."
            print(told, file=sys.stderr, flush=True)
            raise
        if is_serving:  # no other process will deliver it before the next start
            await runtime.remembered(sent, within_ms=REMEMBERED_MS)
    if trace.awaiting is not None:
        return Output(replace(message_view(trace), state="awaiting"), trace.awaiting.text, code=AWAITING)
    code = OK if trace.state in {MessageState.ANSWERED, MessageState.COMMAND} else WRONG
    return Output(message_view(trace), trace.reply.text if trace.reply else "", code=code)
