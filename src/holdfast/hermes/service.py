"""The process beside Hermes: takes the spool of one home, delivers to Hindsight and Honcho, and answers the plugin.

One process serves a home. Its store is in the home by default. It runs no turns and connects no channels.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.hermes.answering import HermesAnswers
from holdfast.hermes.home import HermesHome
from holdfast.hermes.local_socket import listening
from holdfast.hermes.plugin.client import ADDRESS
from holdfast.hermes.provider_config import HermesMemory, read_memory
from holdfast.hermes.spool_reader import SpoolReader
from holdfast.hermes.spool_taker import SpoolTaker
from holdfast.kernel.errors import HermesServed, StoreBroken, StoreOwned
from holdfast.kernel.files import make_private_folder, unwritable
from holdfast.kernel.hardening import conceal, variables
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.store.sqlite.owner import OwnerLock
from holdfast.turns.agents import Agents
from holdfast.turns.policy import AgentPolicy

PRACTICE = {"name": "practice"}  # no turn runs here, so no model is asked
GRACE_S = 5.0


@dataclass(slots=True)
class HermesService:
    """A running process. `providers` are the ones that turns are delivered to."""

    home: HermesHome
    data: Path
    providers: tuple[str, ...]
    left_out: tuple[str, ...]
    runtime: Runtime = field(repr=False)


def data_of(home: HermesHome) -> Path:
    """The data folder of a home, unless the operator names another one."""
    return home.folder / "data"


def agents_of(memory: HermesMemory) -> Agents:
    """Agents that only remember. Every profile of the home has the same providers."""
    os.environ.update(memory.secrets)
    conceal(memory.secrets)
    return make_agents(policy=AgentPolicy(memory=memory.tables, model=PRACTICE))


@asynccontextmanager
async def serving(
    home: HermesHome,
    data: Path,
    *,
    listed: Mapping[str, AgentPolicy] | None = None,
    on_broken: Callable[[StoreBroken], None] | None = None,
) -> AsyncIterator[HermesService]:
    """Serve the home until the block ends. `listed` are agents of a holdfast.toml, instead of Hermes' settings.

    Raises `HermesServed` while another process serves the home, `StoreOwned` while one uses the data folder,
    `SpoolNewer`, and `ConfigInvalid` for settings of a provider that are not valid.
    """
    try:
        make_private_folder(home.folder)
        make_private_folder(home.spool)
    except OSError as error:
        raise unwritable(f"the folder {home.folder} cannot be made", error, path=str(home.folder)) from error
    lock = OwnerLock(home.folder)
    try:
        lock.acquire()
    except StoreOwned as error:
        raise HermesServed(f"process {lock.pid()} serves {home.path}", path=str(home.path)) from error
    try:
        reader = SpoolReader(home.spool)
        reader.waiting()  # a spool that cannot be read is reported before anything starts
        memory = HermesMemory() if listed is not None else read_memory(home, variables(), Path.home())
        agents = make_agents(listed=listed, lenient=True) if listed is not None else agents_of(memory)
        names = [name for one in (listed or {}).values() for name in one.memory or {}] or list(memory.tables)
        async with await open_runtime(data, agents=agents, on_broken=on_broken) as runtime:
            runtime.policies(runtime.default_agent)  # wrong settings of a provider are reported at the start
            taker = SpoolTaker(runtime, reader, home.database)
            answers = HermesAnswers(runtime, reader, dict.fromkeys(names))
            running = runtime.tasks.start(taker.run(), name="spool")
            try:
                async with listening(home.folder, home.folder / ADDRESS, answers.answer):
                    yield HermesService(home, data, tuple(sorted(set(names))), memory.left_out, runtime)
            finally:
                taker.stopping = True
                await _ended(running, GRACE_S)
    finally:
        lock.release()


async def _ended(task: object, within_s: float) -> None:
    if isinstance(task, asyncio.Task):
        await asyncio.wait([task], timeout=within_s)
        task.cancel()
