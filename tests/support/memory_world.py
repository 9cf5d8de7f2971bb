"""Real runtimes with memory services, on a loop whose clock jumps: an hour of an outage costs nothing.

The services and the file are the world's; a runtime is one process of it and may be closed or killed.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import DeliveryView, PerSession
from holdfast.memory.lane import DispatchPolicy
from holdfast.memory.notes_service import NotesService
from holdfast.memory.provider import Configured, Providers
from holdfast.runtime.app import DATABASE
from holdfast.runtime.assembly import assemble
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.tool_factory import with_memory
from holdfast.testing import SeededEntropy, SimClock, SimLoop, SimNode, SimTasks
from holdfast.testing.inline_database import InlineDatabase
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import ScriptedModel, agents, policy
from tests.support.memory_provider import Service, ServiceProvider
from tests.support.ports import make_ports

T = TypeVar("T")


def shelf(
    service: Service, *, naming: Any = None, every_turns: int = 1, name: str = "shelf", **able: Any
) -> Configured:
    provider = ServiceProvider(service, name, **able)
    return Configured(provider, naming or PerSession(), every_turns=every_turns)


class World:
    def __init__(self, folder: Path) -> None:
        self.loop = SimLoop(1, steps_max=3_000_000)
        self.clock = SimClock(self.loop)
        self.folder = folder
        self.model = ScriptedModel()
        self.dispatch_policy = DispatchPolicy()
        self.databases: list[InlineDatabase] = []
        self._nodes: list[SimNode] = []

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(scenario)

    async def open(self, chosen: AgentPolicy | None = None, /, **services: Configured) -> Runtime:
        """One process of this world; its providers are named by keyword."""
        made = {ProviderName(name): configured for name, configured in services.items()}
        node = SimNode(self.loop, f"n{len(self._nodes)}")
        self._nodes.append(node)
        database = InlineDatabase(self.folder / DATABASE, self.clock, synchronous="off")
        self.databases.append(database)
        node.on_death(database.crash)
        db = database
        providers = Providers(lambda _agent: made)
        notes = NotesService(db, providers)
        providers.attach(notes)
        runtime = assemble(
            make_ports(db, clock=self.clock, entropy=SeededEntropy(node.name), tasks=SimTasks(self.loop, node)),
            with_memory(agents(self.model, chosen or policy()), providers, notes),
            providers=providers,
            notes=notes,
            dispatch_policy=self.dispatch_policy,
        )
        return await runtime.start()

    def kill(self) -> None:
        """As kill -9 of the newest process."""
        self._nodes[-1].kill()

    async def pass_time(self, seconds: float) -> None:
        """Let the clock jump, timer by timer, until so much has passed."""
        passed = asyncio.Event()
        self.loop.call_later(seconds, passed.set)
        await passed.wait()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the file has, read past the runtime."""
        db = apsw.Connection(str(self.folder / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(db.execute(query))
        finally:
            db.close()

    def cursors(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(provider, stream) to (scheduled, settled)."""
        found = self.rows("select provider, stream, scheduled_seq, settled_seq from cursor")
        return {(provider, stream): (scheduled, settled) for provider, stream, scheduled, settled in found}

    # --- what its people say

    def contexts(self, after: int = 0) -> list[str]:
        """Everything that the model was shown, a text for each question."""
        return ["\n".join(message.content for message in request) for request in self.model.requests[after:]]


async def say(runtime: Runtime, *texts: str, chat: str = "c") -> list[str]:
    return [await runtime.ask(chat, text) for text in texts]


async def all_deliveries(runtime: Runtime, **wanted: Any) -> Sequence[DeliveryView]:
    """Oldest first, however many there are."""
    found: list[DeliveryView] = []
    while page := await runtime.deliveries(after=found[-1].n if found else 0, limit=100, **wanted):
        found += page
    return found[::-1]


def states(found: Sequence[DeliveryView]) -> Mapping[str, int]:
    return {state: sum(one.state == state for one in found) for state in sorted({one.state for one in found})}
