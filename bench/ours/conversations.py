"""Holdfast holding conversations: storing finished turns, and answering messages."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import holdfast
from bench import texts
from bench.work import Conversations, in_parallel, schedule
from holdfast.kernel.ids import Principal, SessionId
from holdfast.monitor.queues_sql import read_queues
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.history_sql import list_operations, read_session
from holdfast.turns.journal import AssistantSaid, Recalled, UserSaid
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, TextDelta
from holdfast.turns.turn import TurnRecord

AGENT = "main"
RECORD_TURNS = 50  # turns of history that one record holds
LOOK_MS = 1_000
# A window of which the verbatim part is about `texts.TAIL` messages of the append benchmark.
TAIL_WINDOW = Thresholds(context_tokens=30_000)
SAID = (UserSaid(text=texts.USER, principal="user"), AssistantSaid(text=texts.ASSISTANT))
INDEX = "local"


class Instant:
    """Gives one answer at once; with `streaming`, word by word first."""

    name = "instant"

    def __init__(self, *, streaming: bool = False) -> None:
        self._streaming = streaming

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        del request
        if self._streaming:
            for word in texts.ANSWER.split(" "):
                yield TextDelta(f"{word} ")
            yield ModelAnswer(text=f"{texts.ANSWER} ")
            return
        yield ModelAnswer(text=texts.ANSWER)


def said(n: int, principal: str) -> UserSaid | AssistantSaid:
    text = texts.message(n)
    return UserSaid(text=text, principal=principal) if n % 2 == 0 else AssistantSaid(text=text)


def turn_record(session: str, key: str, entries: Sequence[Any], principal: str) -> TurnRecord:
    return TurnRecord(
        session=SessionId(session),
        agent=AGENT,
        key=key,
        entries=tuple(entries),
        principal=Principal(principal),
        place="bench",
    )


class Holdfast(Conversations):
    """An open runtime, and how it gets a history."""

    runtime: holdfast.Runtime

    def policy(self) -> holdfast.AgentPolicy:
        return holdfast.AgentPolicy(memory={})

    async def open(self) -> None:
        self._stack = AsyncExitStack()
        model = Instant(streaming=self.task.option("streaming", False))
        self.runtime = await self._stack.enter_async_context(
            holdfast.open(self.task.option("address") or self.folder, model=model, policy=self.policy())
        )

    async def record(self, session: str, key: str, entries: Sequence[Any], principal: str) -> None:
        await self.runtime.record_turn(turn_record(session, key, entries, principal))

    async def compress(self, session: str) -> None:
        """Compress older entries, and wait for it."""
        began = await self.runtime.begin_compression(SessionId(session))
        feed = self.runtime.events()
        while not any(one.id == began.id and one.ended_at for one in await self._operations(session)):
            await feed.next_within(LOOK_MS)
        feed.close()

    async def _operations(self, session: str) -> Sequence[Any]:
        return await self.runtime.db.read(list_operations(session=SessionId(session)))

    async def settle(self) -> None:
        """Wait until the turns' deliveries to memory have been settled."""
        feed = self.runtime.events()
        while (await self.runtime.db.read(read_queues())).deliveries:
            await feed.next_within(LOOK_MS)
        feed.close()

    async def close(self) -> None:
        await self._stack.aclose()


class Append(Holdfast):
    """`record_and_read`: the turn, and the context after it: a summary of older entries, and the entries since."""

    def policy(self) -> holdfast.AgentPolicy:
        return holdfast.AgentPolicy(memory={}, thresholds=TAIL_WINDOW)

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        await in_parallel(self._history(name, messages) for name in names)

    async def _history(self, name: str, messages: int) -> None:
        for turn in range(0, messages // 2, RECORD_TURNS):
            pairs = min(RECORD_TURNS, messages // 2 - turn)
            await self.record(name, f"history{turn}", SAID * pairs, "user")
        if messages > 2 * texts.TAIL:
            await self.compress(name)

    async def meet(self, name: str) -> None:
        if self.task.load.history:
            await self.runtime.context(SessionId(name))

    async def turn(self, name: str, n: int) -> None:
        key = f"r{self.task.repetition}t{n}{name}"
        _, context = await self.runtime.record_and_read(turn_record(name, key, SAID, "user"))
        assert context.entries


class Answers(Holdfast):
    """`ask`, without memory. With a history, the chat resumes a session that has it."""

    def policy(self) -> holdfast.AgentPolicy:
        window = self.task.option("window")
        thresholds = Thresholds(context_tokens=window) if window else Thresholds()
        return holdfast.AgentPolicy(memory=None if self.remembers else {}, thresholds=thresholds)

    remembers = False

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        await in_parallel(self.history(f"{name}-history", name, messages) for name in names)
        if self.remembers:
            await self.runtime.backfill(INDEX)
            await self.settle()
        await in_parallel(self._resume(name) for name in names)

    async def _resume(self, name: str) -> None:
        await self.runtime.ask(name, f"/resume {name}-history", id="resume")
        await self.runtime.ask(name, texts.message(0), id="first")  # compresses what exceeds the window
        assert (await self.runtime.db.read(read_session(SessionId(f"{name}-history")))).live

    async def history(self, session: str, principal: str, messages: int) -> None:
        """Record turns of two messages each, so that memory indexes turns as they are in a conversation."""
        for n in range(0, messages, 2):
            await self.record(session, f"h{n}", (said(n, principal), said(n + 1, principal)), principal)

    async def turn(self, name: str, n: int) -> None:
        ident = f"r{self.task.repetition}t{n}{name}"
        if self.task.option("heard"):
            pieces = [piece.text async for piece in self.runtime.stream(name, texts.message(n), id=ident)]
            assert len(pieces) > 1
            return
        assert await self.runtime.ask(name, texts.message(n), id=ident, sender=self.task.option("sender"))


class AnswersWithMemory(Answers):
    """`ask`, with the memory of a data folder as it is by default. Deliveries to memory count."""

    remembers = True

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        remembered: int = self.task.option("remembered", 0)
        if not remembered:
            await super().prepare(names, messages)
            return
        sender: str = self.task.option("sender")
        await in_parallel(
            self.history(f"remembered-{start}", sender, 2 * min(RECORD_TURNS, remembered - start))
            for start in range(0, remembered, RECORD_TURNS)
        )
        await self.runtime.backfill(INDEX)

    async def check(self) -> dict[str, float]:
        """The share of turns that recalled something, where each turn begins a conversation and memory has an answer.

        A turn goes on without memory if its search fails or takes too long.
        """
        load, turns, recalls = self.task.load, 0, 0
        if not self.task.option("remembered"):
            return {}
        places = [schedule(load, str(self.task.repetition), worker) for worker in range(load.at_once)]
        for name in {place(turn) for place in places for turn in range(load.turns_max // load.at_once)}:
            for session in await self.runtime.sessions(chat=name):
                bodies = [view.entry.body for view in await self.runtime.history(session.id)]
                turns += sum(isinstance(body, UserSaid) for body in bodies)
                recalls += sum(isinstance(body, Recalled) for body in bodies)
        return {"recalled": recalls / turns}
