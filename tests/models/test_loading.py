"""The libraries of a model are loaded before its first request if `load` was called, as `holdfast up` does.

Counted in modules that a request imports, in a process of its own: seconds differ from machine to machine.
"""

import subprocess
import sys

import pytest

from holdfast.kernel.ids import AgentName
from holdfast.models.choose import Fallback
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.model import Connected
from holdfast.turns.policy import AgentPolicy
from tests.support.patience import HANGS_S

IMPORTED_MAX = 25  # the sockets of the HTTP client; the vendors' libraries have hundreds
CHILD = """
import asyncio, sys
from tests.support.model_asking import ask, model_at
from tests.support.model_vendor import FakeVendor, chat, claude, streams

async def main(kind):
    play = streams(claude("hello") if kind == "anthropic" else chat("hello"))
    async with FakeVendor([play]) as vendor, model_at(vendor, kind) as model:
        assert "pydantic_ai" not in sys.modules
        await model.load()
        before = set(sys.modules)
        await ask(model)
        print(*sorted(set(sys.modules) - before))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", ["openai", "anthropic", "ollama"])
def test_the_first_request_of_a_loaded_model_imports_next_to_nothing(kind):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, kind], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) <= IMPORTED_MAX, done.stdout


class Counted(Connected):
    name = "counted"
    loads = 0

    async def ask(self, request):
        raise NotImplementedError
        yield

    async def load(self):
        self.loads += 1

    async def close(self):
        return


async def test_every_model_of_a_fallback_is_loaded():
    models = Counted(), Counted()
    await Fallback(models).load()
    assert [model.loads for model in models] == [1, 1]


def test_a_model_of_several_agents_is_loaded_once():
    shared = Counted()
    agent = Agent(policy=AgentPolicy(), model=shared, summariser=shared, tools=ToolBox())
    assert Agents(agent, {AgentName("ada"): agent}).connected == [shared]
