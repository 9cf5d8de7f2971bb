"""`holdfast send`: leave one message in a chat's mailbox, and wait for the reply if asked to."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AgentName, Chat, Config, Data, Json

TEXT_BYTES_MAX = 16 * 1024 * 1024  # no agent can be configured to take more


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    text: str
    agent: str | None
    chat: str
    sender: str | None
    id: str | None


def send(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; `-` reads it from stdin.")],
    *,
    agent: AgentName = None,
    chat: Chat = "terminal",
    sender: Annotated[str | None, typer.Option("--sender", help="Who speaks.", show_default="the chat")] = None,
    id: Annotated[str | None, typer.Option("--id", help="Your id of the message: repeating it is safe.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the reply and print it.")] = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Send a message to a chat.

    It is durable when this returns, whether or not `holdfast up` runs.

    With --wait the reply is waited for; where nobody serves the data folder, this command does until the reply is
    there. A question about a dangerous tool ends the wait with exit code 4; `/approve ID` sent with --wait waits for
    the rest.

    \b
    Examples:
      holdfast send "My cat is called Byron."
      holdfast send --chat family --id 42 "What is my cat called?" --wait
    """
    from holdfast.cli.running import run

    async def work() -> int:
        letter = Letter(text=_text(text), agent=agent, chat=chat, sender=sender, id=id)
        return await (_wait if wait else _leave)(letter, config, data, as_json=as_json)

    run(work, as_json=as_json)


def _text(given: str) -> str:
    """Raises `InvalidUnicode` for bytes that are no text, and `MessageTooLarge` for more than any agent takes."""
    if given != "-":
        return given
    import sys

    from holdfast.kernel.errors import InvalidUnicode, MessageTooLarge

    raw = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
    if len(raw) > TEXT_BYTES_MAX:
        raise MessageTooLarge(f"stdin has more than {TEXT_BYTES_MAX} bytes; nothing was sent")
    try:
        return raw.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidUnicode(f"byte {error.start} of stdin is not UTF-8; nothing was sent") from error


async def _leave(letter: Letter, config: Path | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.shapes import AcceptedMessage, accepted_view
    from holdfast.cli.opening import folder_of, visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.runtime.app import is_served

    async with visiting(data, config, make=True) as runtime:
        outcome = accepted_view(
            await runtime.accept(
                letter.chat, letter.text, agent=letter.agent, sender=letter.sender, id=letter.id, trusted=True
            )
        )
    if as_json:
        print_json(outcome)
        return OK
    print(f"{outcome.status} {outcome.message}")
    if isinstance(outcome, AcceptedMessage):
        if outcome.queued_behind:
            print(f"It waits behind {outcome.queued_behind} others.")
        if not is_served(folder_of(data)):
            print("No process serves this data folder now: the message waits until `holdfast up` runs.")
    return OK


@contextmanager
def _traceable(message: str) -> Iterator[None]:
    """Whoever stops waiting is told what to ask for later: the message stays accepted."""
    import asyncio
    import sys

    try:
        yield
    except asyncio.CancelledError:
        told = f"{message} is accepted and will be answered; `holdfast trace {message}` shows what becomes of it."
        print(told, file=sys.stderr, flush=True)
        raise


async def _wait(letter: Letter, config: Path | None, data: Path | None, *, as_json: bool) -> int:
    from msgspec.structs import replace

    from holdfast.api.shapes.shapes import message_view
    from holdfast.cli.opening import config_of, folder_of, serving_or_visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import AWAITING, OK, WRONG
    from holdfast.inbox.message import MessageState

    folder = folder_of(data)
    async with serving_or_visiting(folder, config_of(config, folder)) as (runtime, _):
        message = await runtime.send(letter.chat, letter.text, agent=letter.agent, sender=letter.sender, id=letter.id)
        with _traceable(message):
            trace = await runtime.outcome(message)
            if trace.released is not None:
                trace = await runtime.outcome(trace.released)
    if trace.awaiting is not None:
        asked = replace(message_view(trace), state="awaiting")
        print_json(asked) if as_json else print(visible(trace.awaiting.text))
        return AWAITING
    if as_json:
        print_json(message_view(trace))
    else:
        print(visible(trace.reply.text if trace.reply else ""))
    return OK if trace.state in {MessageState.ANSWERED, MessageState.COMMAND} else WRONG
