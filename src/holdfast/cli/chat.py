"""`holdfast chat`: a conversation in the terminal. It serves the data folder, or joins the process that serves it.

Each line is accepted as it is typed, also while a reply is being written; replies are printed in order. The first
Ctrl-C stops the running turn, the second leaves after the reply, the third leaves at once.
"""

import asyncio
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.shapes.shapes import message_view
from holdfast.cli.command import AgentName, Chat, Invocation, Runtime, command
from holdfast.cli.output import OK, Heading, Output, print_error, print_json, visible
from holdfast.cli.running import exit_code
from holdfast.cli.terminal import Keyboard, on_signal
from holdfast.inbox.message import Accepted, accepted_message
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import MessageId
from holdfast.kernel.notifier import Feed

HISTORY_ENTRIES = 20
LEAVE = frozenset({"/quit", "/exit"})


@command(config=True)
async def chat(invocation: Invocation, agent: AgentName = None, chat: Chat = "terminal") -> int:
    """Talk with an agent in the terminal.

    Commands such as /new, /undo, /branch and /help work; /quit leaves. With --json each reply is one JSON object per
    line. Piped input is answered line by line; the exit code is that of the first line that was refused.

    \b
    Examples:
      holdfast chat
      holdfast chat --agent main --chat family
      echo "What is my cat called?" | holdfast chat
    """
    async with invocation.serving_or_visiting() as (runtime, is_serving):
        talk = TerminalChat(runtime, runtime.named(agent or None), chat, as_json=invocation.as_json)
        await talk.greet(is_serving=is_serving)
        with on_signal(talk.interrupt, hang_up=talk.hang_up):
            runtime.tasks.start(talk.listen(Keyboard()), name="chat")
            await talk.answer()
    return OK if talk.refused is None else exit_code(talk.refused)


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """A durable line, with the events since before it was accepted."""

    message: MessageId
    behind: int
    feed: Feed


def here() -> Path | None:
    """The current directory; None if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


class TerminalChat:
    def __init__(self, runtime: Runtime, agent: str, chat: str, *, as_json: bool) -> None:
        self._runtime = runtime
        self._agent = agent
        self._chat = chat
        self._as_json = as_json
        self._directory = here()
        self._is_prompting = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
        self._turns: asyncio.Queue[AcceptedLine | HoldfastError | None] = asyncio.Queue()
        self._pending = 0
        self._stopped = False
        self._is_leaving = False
        self._patience: asyncio.Timeout | None = None  # limits the wait for replies; unlimited until the user insists
        self.refused: HoldfastError | None = None  # the error of the first refused line of piped input

    async def greet(self, *, is_serving: bool) -> None:
        """Print which process answers, and the end of the conversation so far."""
        sessions = await self._runtime.sessions(agent=self._agent, chat=self._chat)
        live = next((session for session in sessions if session.live), None)
        if self._as_json:
            return
        where = "answered here" if is_serving else "answered by the process that serves this data folder"
        text = f"{self._agent}, chat {self._chat}: {where}. /help shows the commands, /quit leaves."
        Output(None, Heading(text)).print(as_json=False)
        if live is not None:
            start = max(0, live.committed_seq - HISTORY_ENTRIES)
            for view in await self._runtime.history(live.id, after=start, limit=HISTORY_ENTRIES):
                if view.entry.kind in {"user", "assistant", "notice"} and view.entry.text and not view.undone:
                    who = {"user": "you", "assistant": self._agent}.get(view.entry.kind, view.entry.kind)
                    print(f"{who}> {visible(view.entry.text)}")

    # --- input

    async def listen(self, keyboard: Keyboard) -> None:
        """Accept every line as it arrives; the end of the input ends the conversation."""
        self._prompt()
        try:
            while await self._hear(keyboard):
                pass
        finally:
            self._turns.put_nowait(None)

    async def _hear(self, keyboard: Keyboard) -> bool:
        """Accept one line. Returns whether there may be another."""
        try:
            line = await keyboard.next_line()
            if line is None or line.strip() in LEAVE:
                return False
            if line.strip():
                await self._send(line)
            else:
                self._prompt()
        except HoldfastError as error:
            if not sys.stdin.isatty():
                self.refused = self.refused or error
            self._pending += 1
            self._turns.put_nowait(error)
        return True

    async def _send(self, text: str) -> None:
        feed = self._runtime.events()
        try:
            outcome = await self._runtime.accept(
                self._chat, text, agent=self._agent, directory=self._directory, trusted=True
            )
            message = accepted_message(outcome)
        except BaseException:
            feed.close()
            raise
        self._pending += 1
        self._stopped = False
        self._turns.put_nowait(
            AcceptedLine(message, outcome.queued_behind if isinstance(outcome, Accepted) else 0, feed)
        )

    def interrupt(self) -> None:
        """Ctrl-C: the first stops the running turn, the second leaves after the reply, the third leaves at once."""
        if self._pending and not self._stopped:
            self._stopped = True
            self._runtime.tasks.start(self._stop(), name="stop")
        elif self._is_leaving:
            self.hang_up()
        else:
            self._is_leaving = True
            self._turns.put_nowait(None)

    def hang_up(self) -> None:
        """Leave at once, as when the terminal is gone. Accepted lines are durable; an open turn is resumed later."""
        self._is_leaving = True
        if self._patience is not None:
            self._patience.reschedule(0)
            self._patience = None
        self._turns.put_nowait(None)

    async def _stop(self) -> None:
        try:
            await self._runtime.accept(self._chat, "/stop", agent=self._agent)
        except HoldfastError as error:
            self._pending += 1
            self._turns.put_nowait(error)

    # --- replies

    async def answer(self) -> None:
        """Print the reply to each line in order, while it is written, until the input ends or the user leaves."""
        patience = self._patience = asyncio.timeout(None)
        try:
            async with patience:
                await self._print_all()
        except TimeoutError:
            if not patience.expired():
                raise
        finally:
            self._patience = None

    async def _print_all(self) -> None:
        while (item := await self._turns.get()) is not None:
            if isinstance(item, HoldfastError):
                print_error(item, as_json=self._as_json)
            elif self._as_json:
                item.feed.close()
                await self._runtime.reply_to(item.message)
                print_json(message_view(await self._runtime.trace(item.message)))
            else:
                await self._print_stream(item)
            self._pending -= 1
            self._prompt()

    async def _print_stream(self, sent: AcceptedLine) -> None:
        if sent.behind:
            print(f"(queued behind {sent.behind})", flush=True)
        print(f"{self._agent}> ", end="", flush=True)
        with closing(sent.feed):
            async for delta in self._runtime.follow(sent.message, sent.feed):
                if delta.restarted:
                    print(f"\n(starting again)\n{self._agent}> ", end="")
                print(visible(delta.text), end="", flush=True)
        print(flush=True)

    def _prompt(self) -> None:
        if self._is_prompting and not self._pending:
            print("you> ", end="", flush=True)
