"""A local provider in a folder of the test, and a person who talks to it."""

from holdfast.kernel.ids import AgentName
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.machine import AsyncTasks
from holdfast.memory.provider import ProviderSetup
from holdfast.providers.local import LocalProvider, make_local
from holdfast.testing import ManualClock, SeededEntropy


def make_setup(folder, clock=None, **settings):
    return ProviderSetup(
        name=ProviderName("local"),
        agent=AgentName("fern"),
        settings=settings,
        folder=folder / "local",
        environment={},
        clock=clock or ManualClock(),
        entropy=SeededEntropy(1),
        tasks=AsyncTasks(),
    )


def open_local(folder, clock=None, **settings) -> LocalProvider:
    provider = make_local(make_setup(folder, clock, **settings)).provider
    assert isinstance(provider, LocalProvider)
    return provider
