"""kill -9 of the real Hermes, of the process beside it, and of both: nothing that `sync_turn` acknowledged is lost,
doubled or filed in another session, at Hindsight and at Honcho.

The plugin is installed by the command and called by the memory manager of Hermes 0.19.0, on its own threads.
"""

import os
from pathlib import Path

import pytest

from holdfast.hermes.install import Installation, install_plugin
from tests.hermes.kill_campaign import Campaign, make_campaign_home
from tests.support.hermes_service import memory_servers

pytestmark = [pytest.mark.hermes, pytest.mark.timeout(7_200)]
MANAGED = Path(__file__).with_name("managed_hermes.py")


async def run(python, tmp_path, seed, rounds):
    async with memory_servers() as servers:
        home = make_campaign_home(tmp_path / "home", servers)
        install_plugin(home, Installation(python=python, starts=False), {}, home.path)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**kept, "HERMES_HOME": str(home.path), "HOME": str(home.path)}
        writer = (python, MANAGED, home.path)
        campaign = Campaign(home, servers, seed, writer=writer, environment=environment)
        await campaign.run(rounds)
        print(campaign.check())  # noqa: T201 - shown with -s


async def test_every_turn_of_the_manager_arrives_though_hermes_and_the_process_are_killed(hermes_python, tmp_path):
    await run(hermes_python, tmp_path, seed=19, rounds=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
async def test_nothing_is_lost_in_a_hundred_runs(hermes_python, tmp_path, seed):
    await run(hermes_python, tmp_path, seed=seed, rounds=10)
