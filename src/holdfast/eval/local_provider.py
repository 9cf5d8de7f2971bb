"""The local provider in a folder of its own, outside any runtime."""

from pathlib import Path

from holdfast.kernel.ids import AgentName, Provider
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.local import make_local

LOCAL = Provider("local")


def local_provider(folder: Path, agent: AgentName) -> Configured:
    setup = ProviderSetup(
        name=LOCAL,
        agent=agent,
        settings={},
        folder=folder,
        environment={},
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=AsyncTasks(),
    )
    return make_local(setup)
