"""Runtimes as people open them, on a real loop: for providers that speak over a socket, and for other people's."""

from pathlib import Path

from holdfast.kernel.notifier import Topic
from holdfast.memory.delivery import OPEN
from holdfast.memory.recall import RecallPolicy
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.finalisation_sql import list_finalisations
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import SOON_S, ScriptedModel, soon
from tests.support.honcho_server import HonchoServer
from tests.support.memory_world import all_deliveries
from tests.support.patience import within


async def open_with_honcho(server: HonchoServer, folder: Path, model: ScriptedModel | None = None) -> Runtime:
    """Without recall, which these tests are not about and which would ask the server once a turn."""
    policy = AgentPolicy(memory={"honcho": {"url": server.url}}, recall=RecallPolicy(enabled=False))
    return await open_runtime(folder, agents=make_agents(model=model or ScriptedModel(), policy=policy))


async def next_delivery(runtime: Runtime) -> None:
    await runtime._notifier.wait(Topic.DELIVERY, timeout_ms=1_000)


async def settled(runtime: Runtime, within_s: float = SOON_S) -> None:
    """Until nothing is on its way any more."""
    under_way = {state.value for state in OPEN}

    async def settle() -> None:
        while any(one.state in under_way for one in await all_deliveries(runtime)):
            await next_delivery(runtime)

    async with within(within_s):
        await settle()


async def finished(runtime: Runtime) -> None:
    """Until every epoch that ended has given its notes: they travel too."""

    async def finish() -> None:
        while any(one.ended_at is None for one in await runtime.db.read(list_finalisations())):
            await next_delivery(runtime)

    await soon(finish())
