"""Providers and channels are made from the environment that they are given, whichever process makes them."""

import pytest

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks
from holdfast.runtime.plugins import Environment, make_provider
from holdfast.testing import ManualClock, SeededEntropy

HINDSIGHT = {"url": "https://hindsight.example", "api_key_env": "MEMORY_KEY"}


def environment(tmp_path, **variables):
    return Environment(
        clock=ManualClock(),
        entropy=SeededEntropy("plugins"),
        tasks=AsyncTasks(),
        folder=tmp_path,
        variables=variables,
    )


async def test_a_provider_reads_its_key_from_the_given_variables(tmp_path, monkeypatch):
    monkeypatch.delenv("MEMORY_KEY", raising=False)
    made = make_provider(AgentName("main"), "hindsight", HINDSIGHT, environment(tmp_path, MEMORY_KEY="given"))
    await made.provider.close()


async def test_a_key_of_the_process_does_not_stand_in_for_one_that_was_not_given(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_KEY", "of the process")
    with pytest.raises(ConfigInvalid, match="MEMORY_KEY"):
        make_provider(AgentName("main"), "hindsight", HINDSIGHT, environment(tmp_path))
