"""A model, tools and processes that do only what a test tells them to, and remember what they were asked.

Nothing here waits for time to pass: a model or a tool that is to be slow stands at a `Gate` until the test opens it.
A `Process` is the real runtime over a real SQLite file; killing one runs no `except` that could reach the store, since
its connection is gone first.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from holdfast.inbox.channels import Channels
from holdfast.inbox.mailbox import MessageTrace
from holdfast.inbox.message import Arrival, Limits
from holdfast.kernel.ids import AgentName, MessageId, Principal, SessionId
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.kernel.notifier import Event
from holdfast.kernel.ports import Clock
from holdfast.kernel.retry import RetryPolicy
from holdfast.runtime.app import DATABASE
from holdfast.runtime.assembly import assemble
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.compression import Thresholds
from holdfast.store.membership import LEASE_MS
from holdfast.testing.inline_database import InlineDatabase
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.context import ModelMessage
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, ModelTask, TextDelta
from holdfast.turns.policy import AgentPolicy, Arrivals, TurnPolicy
from holdfast.turns.turn import Usage
from tests.support.patience import within
from tests.support.ports import make_ports

SOON_S = 20.0  # longer than any answer takes
T = TypeVar("T")
Move: TypeAlias = Callable[[ModelRequest], AsyncIterator[ModelEvent]]


async def soon(awaited: Awaitable[T]) -> T:
    """The result; a test that would hang fails instead."""
    async with within(SOON_S):
        return await awaited


class Gate:
    """Where somebody stands until the test lets them through."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.left = asyncio.Event()  # also when the waiting task was cancelled

    async def stand(self) -> None:
        self.reached.set()
        try:
            await self.opened.wait()
        finally:
            self.left.set()

    async def arrival(self) -> None:
        await soon(self.reached.wait())

    def open(self) -> None:
        self.opened.set()


# --- what a model may do ---------------------------------------------------------------------------


def says(text: str, *, usage: Usage | None = None) -> Move:
    async def move(_request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for position, word in enumerate(text.split(" ")):
            yield TextDelta(f" {word}" if position else word)
        yield ModelAnswer(text=text, usage=usage or Usage())

    return move


def calls(*wanted: str, text: str = "", ids: Sequence[str] = ()) -> Move:
    """Ask for tools: `name` or `name {"json": 1}`."""

    async def move(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        made = []
        for position, wish in enumerate(wanted):
            name, _, arguments = wish.partition(" ")
            call = ids[position] if ids else f"call_{len(request.messages)}_{position}"
            made.append(ToolCall(id=call, name=name, arguments=arguments or "{}"))
        if text:
            yield TextDelta(text)
        yield ModelAnswer(text=text, calls=tuple(made))

    return move


def emits(*events: Any) -> Move:
    """Exactly these events, garbage included."""

    async def move(_request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in events:
            yield event

    return move


def raises(error: BaseException, *, after: str = "") -> Move:
    async def move(_request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if after:
            yield TextDelta(after)
        raise error

    return move


def stands_at(gate: Gate, then: Move, *, after: str = "") -> Move:
    async def move(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if after:
            yield TextDelta(after)
        await gate.stand()
        async for event in then(request):
            yield event

    return move


def echo(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    return says(f"re: {last_said(request.messages)}")(request)


def gist(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    """A short summary that names the first word of everything it was shown."""
    words = [
        message.content.split()[0] for message in request.messages[1:] if message.role == "user" and not message.data
    ]
    return says("gist: " + " ".join(dict.fromkeys(words)))(request)


def last_said(messages: Sequence[ModelMessage]) -> str:
    return next((message.content for message in reversed(messages) if message.role == "user" and not message.data), "")


class ScriptedModel:
    """Implements `Model`: the next move of its script, and then always the same."""

    name = "scripted"

    def __init__(self, *moves: Move, otherwise: Move = echo, summaries: Sequence[Move] = (), summary: Move = gist):
        self.moves = list(moves)
        self.otherwise = otherwise
        self.summary_moves = list(summaries)
        self.summary = summary
        self.asked: list[ModelRequest] = []

    def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request)
        if request.task is ModelTask.SUMMARY:
            return (self.summary_moves.pop(0) if self.summary_moves else self.summary)(request)
        return (self.moves.pop(0) if self.moves else self.otherwise)(request)

    @property
    def requests(self) -> list[tuple[ModelMessage, ...]]:
        """The messages of every question for a reply, in order."""
        return [request.messages for request in self.asked if request.task is ModelTask.REPLY]

    @property
    def summaries_asked(self) -> list[tuple[ModelMessage, ...]]:
        return [request.messages for request in self.asked if request.task is ModelTask.SUMMARY]


# --- processes -------------------------------------------------------------------------------------

QUICK = RetryPolicy(delay_ms_base=1, delay_ms_max=2)


def policy(
    *,
    arrivals: Arrivals = Arrivals.QUEUE,
    thresholds: Thresholds | None = None,
    limits: Limits | None = None,
    instructions: str = "",
    **turn: Any,
) -> AgentPolicy:
    return AgentPolicy(
        instructions=instructions,
        turn=TurnPolicy(arrivals=arrivals, retry=QUICK, **turn),
        thresholds=thresholds or Thresholds(),
        limits=limits or Limits(),
    )


def small(**changes: Any) -> Thresholds:
    """A window of 400 tokens: a summary is prepared from 200 on and waited for from 320 on."""
    return Thresholds(**{"context_tokens": 400, "soft": 0.5, "hard": 0.8, "keep": 0.2, **changes})


def agents(
    model: ScriptedModel, chosen: AgentPolicy | None = None, *, tools: Sequence[Callable[..., Any]] = ()
) -> Agents:
    box = ToolBox()
    for tool in tools:
        box.add(tool, idempotent=getattr(tool, "idempotent", False))
    return Agents(Agent(policy=chosen or policy(), model=model, summariser=model, tools=box))


class KillableTasks(AsyncTasks):
    def __init__(self) -> None:
        super().__init__()
        self.killed = False

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = super().start(work, name=name)
        if self.killed:
            task.cancel()
        return task

    def kill(self) -> None:
        self.killed = True
        for task in list(self._running):
            task.cancel()

    async def gone(self) -> None:
        """Until every task has heard that it is cancelled."""
        while self._running:
            await asyncio.wait(self._running)


@dataclass
class Process:
    """A runtime over `folder`, opened as the owner of the file opens it."""

    runtime: Runtime
    database: InlineDatabase
    tasks: KillableTasks
    verbs: list[str] = field(default_factory=list)

    @classmethod
    async def start(
        cls,
        folder: Path,
        who: Agents,
        *,
        clock: Clock | None = None,
        sole: bool = True,
        serve: bool = True,
        lease_ms: int = LEASE_MS,
        turns_max: int = 64,
        channels: Channels | None = None,
    ) -> "Process":
        clock = clock or SystemClock()
        verbs: list[str] = []
        database = InlineDatabase(
            folder / DATABASE,
            clock,
            synchronous="off",
            before_statement=lambda verb, _sql: verbs.append(verb),
        )
        db = database
        tasks = KillableTasks()
        runtime = assemble(
            make_ports(db, clock=clock, entropy=SystemEntropy(), tasks=tasks),
            who,
            sole=sole,
            serve=serve,
            lease_ms=lease_ms,
            turns_max=turns_max,
            channels=channels,
            receive=channels is not None,
        )
        return cls(await runtime.start(), database, tasks, verbs)

    async def kill(self) -> None:
        """As kill -9: what is committed stays, and nothing else of it is ever written."""
        self.database.crash()
        self.tasks.kill()
        await soon(self.tasks.gone())

    async def __aenter__(self) -> Runtime:
        return self.runtime

    async def __aexit__(self, *_: object) -> None:
        if not self.database.dead:
            await self.runtime.close()
            self.tasks.kill()
            await soon(self.tasks.gone())


# --- asking what happened --------------------------------------------------------------------------


async def settled(runtime: Runtime, *messages: MessageId) -> list[MessageTrace]:
    """What became of the messages, once every one of them has come to its end."""
    for message in messages:
        await soon(runtime.reply_to(message))
    return [await runtime.trace(message) for message in messages]


async def states(runtime: Runtime, *messages: MessageId) -> list[str]:
    return [trace.state.value for trace in await settled(runtime, *messages)]


async def said(runtime: Runtime, session: SessionId | None) -> list[str]:
    """What people said in a session, as the journal has it."""
    assert session is not None
    return [view.entry.text for view in await runtime.history(session) if view.entry.kind == "user"]


async def kinds(runtime: Runtime, session: SessionId | None) -> list[str]:
    assert session is not None
    return [view.entry.kind for view in await runtime.history(session)]


async def the_session(runtime: Runtime, chat: str = "c", agent: str = "main") -> SessionId:
    """The live session of a chat."""
    live = [session.id for session in await runtime.sessions(agent=agent, chat=chat) if session.live]
    assert len(live) == 1
    return live[0]


async def happened(feed: AsyncIterator[Event], name: str, **fields: object) -> Event:
    """The next event of this name, skipping others."""

    async def find() -> Event:
        async for event in feed:
            if event.name == name and all(event.fields.get(key) == value for key, value in fields.items()):
                return event
        raise AssertionError("the feed ended")

    return await soon(find())


async def post(runtime: Runtime, chat: str, text: str, *, type: str = "dm", **more: Any) -> MessageId:
    """Pass a message to the gateway as a channel with groups and bots would."""
    from holdfast.inbox.address import Address
    from holdfast.inbox.message import accepted_message

    address = Address(agent=AgentName("main"), channel="http", type=type, chat=chat)
    more = {"event_id": runtime.gateway.new_message(), "principal": Principal(more.pop("sender", "user")), **more}
    return accepted_message(await runtime.gateway.accept(Arrival(address=address, text=text, **more)))
