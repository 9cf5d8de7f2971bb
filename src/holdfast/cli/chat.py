"""`holdfast chat`: a conversation in the terminal. It serves the data folder, or visits one that is served.

Lines are accepted as they are typed, also while a reply is being written; replies are printed in order. Ctrl-C stops
the running turn once, then leaves when what was sent is over, then at once: whoever should answer may be gone.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.options import AgentName, Chat, Config, Data, Json

if TYPE_CHECKING:
    import asyncio

    from holdfast.cli.keyboard import Keyboard
    from holdfast.kernel.errors import HoldfastError
    from holdfast.kernel.ids import MessageId
    from holdfast.kernel.notifier import Feed
    from holdfast.runtime.runtime import Runtime

HISTORY_ENTRIES = 20
LEAVE = frozenset({"/quit", "/exit"})


def chat(
    *,
    agent: AgentName = None,
    chat: Chat = "terminal",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Talk with an agent here. Commands like /new, /undo, /branch and /help work; /quit leaves.

    With --json each reply is one JSON object on a line. What is piped in is answered line by line; the exit code is
    that of the first line that was not accepted.

    \b
    Examples:
      holdfast chat
      holdfast chat --agent main --chat family
      echo "What is my cat called?" | holdfast chat
    """
    from holdfast.cli.running import run

    run(lambda: _chat(agent, chat, config, data, as_json=as_json), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Sent:
    """A line that is durable, with the events since before it was."""

    message: "MessageId"
    behind: int
    feed: "Feed"


@dataclass(frozen=True, slots=True)
class Unsent:
    error: "HoldfastError"


async def _chat(agent: str | None, chat: str, config: Path | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.cli.keyboard import Keyboard
    from holdfast.cli.opening import config_of, folder_of, serving_or_visiting
    from holdfast.cli.running import OK, exit_code
    from holdfast.cli.signals import on_signal

    folder = folder_of(data)
    settings = config_of(config, folder)
    async with serving_or_visiting(folder, settings) as (runtime, is_serving):
        runtime.check_agent(agent or runtime.default_agent)
        talk = Talk(runtime, agent or runtime.default_agent, chat, as_json=as_json)
        await talk.greet(is_serving=is_serving)
        with on_signal(talk.interrupt, hang_up=talk.hang_up):
            runtime.tasks.start(talk.listen(Keyboard()), name="chat")
            await talk.answer()
    return OK if talk.refused is None else exit_code(talk.refused)


def here() -> Path | None:
    """The directory that the command was started in; none when it has been removed since."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


class Talk:
    def __init__(self, runtime: "Runtime", agent: str, chat: str, *, as_json: bool) -> None:
        from asyncio import Queue

        self._runtime = runtime
        self._agent = agent
        self._chat = chat
        self._as_json = as_json
        self._directory = here()
        self._is_prompting = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
        self._turns: asyncio.Queue[Sent | Unsent | None] = Queue()
        self._pending = 0
        self._stopped = False
        self._is_leaving = False
        self._patience: asyncio.Timeout | None = None  # of whoever waits for a reply; endless until they insist
        self.refused: HoldfastError | None = None  # why the first line of a pipe was not accepted

    async def greet(self, *, is_serving: bool) -> None:
        """Who answers, and the end of what was said before."""
        from holdfast.cli.output import print_heading, visible

        sessions = await self._runtime.sessions(agent=self._agent, chat=self._chat)
        live = next((session for session in sessions if session.live), None)
        if self._as_json:
            return
        where = "answered here" if is_serving else "answered by the process that serves this data folder"
        print_heading(f"{self._agent}, chat {self._chat}: {where}. /help shows the commands, /quit leaves.")
        if live is not None:
            start = max(0, live.committed_seq - HISTORY_ENTRIES)
            for view in await self._runtime.history(live.id, after=start, limit=HISTORY_ENTRIES):
                if view.entry.kind in {"user", "assistant", "notice"} and view.entry.text and not view.undone:
                    who = {"user": "you", "assistant": self._agent}.get(view.entry.kind, view.entry.kind)
                    print(f"{who}> {visible(view.entry.text)}")

    # --- what is typed

    async def listen(self, keyboard: "Keyboard") -> None:
        """Make every line durable as it comes; ends the conversation at the end of the input."""
        self._prompt()
        try:
            while await self._hear(keyboard):
                pass
        finally:
            self._turns.put_nowait(None)

    async def _hear(self, keyboard: "Keyboard") -> bool:
        """Take one line; whether there may be another."""
        from holdfast.kernel.errors import HoldfastError

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
            self._turns.put_nowait(Unsent(error))
        return True

    async def _send(self, text: str) -> None:
        from holdfast.inbox.message import Accepted, accepted_message

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
        self._turns.put_nowait(Sent(message, outcome.queued_behind if isinstance(outcome, Accepted) else 0, feed))

    def interrupt(self) -> None:
        """Ctrl-C: the first stops what is running, the next one leaves after it, one more does not wait for it."""
        if self._pending and not self._stopped:
            self._stopped = True
            self._runtime.tasks.start(self._stop(), name="stop")
        elif self._is_leaving and self._patience is not None:
            self._patience.reschedule(0)
            self._patience = None
        else:
            self._is_leaving = True
            self._turns.put_nowait(None)

    def hang_up(self) -> None:
        """The terminal is gone: leave at once. What was sent is durable, and a turn that runs is resumed later."""
        self._is_leaving = True
        if self._patience is not None:
            self._patience.reschedule(0)
            self._patience = None
        self._turns.put_nowait(None)

    async def _stop(self) -> None:
        from holdfast.kernel.errors import HoldfastError

        try:
            await self._runtime.accept(self._chat, "/stop", agent=self._agent)
        except HoldfastError as error:
            self._pending += 1
            self._turns.put_nowait(Unsent(error))

    # --- what is answered

    async def answer(self) -> None:
        """Print the reply to each message in turn, as it is made, until the input ends or somebody leaves."""
        from asyncio import timeout

        patience = self._patience = timeout(None)
        try:
            async with patience:
                await self._print_all()
        except TimeoutError:
            if not patience.expired():
                raise
        finally:
            self._patience = None

    async def _print_all(self) -> None:
        from holdfast.cli.output import print_error

        while (item := await self._turns.get()) is not None:
            if isinstance(item, Unsent):
                print_error(item.error, as_json=self._as_json)
            elif self._as_json:
                await self._print_whole(item)
            else:
                await self._print_stream(item)
            self._pending -= 1
            self._prompt()

    async def _print_whole(self, sent: Sent) -> None:
        from holdfast.api.shapes.shapes import message_view
        from holdfast.cli.output import print_json

        sent.feed.close()
        await self._runtime.reply_to(sent.message)
        print_json(message_view(await self._runtime.trace(sent.message)))

    async def _print_stream(self, sent: Sent) -> None:
        from holdfast.cli.output import visible

        if sent.behind:
            print(f"(queued behind {sent.behind})", flush=True)
        print(f"{self._agent}> ", end="", flush=True)
        try:
            async for delta in self._runtime.follow(sent.message, sent.feed):
                if delta.restarted:
                    print(f"\n(starting again)\n{self._agent}> ", end="")
                print(visible(delta.text), end="", flush=True)
        finally:
            sent.feed.close()
        print(flush=True)

    def _prompt(self) -> None:
        if self._is_prompting and not self._pending:
            print("you> ", end="", flush=True)
