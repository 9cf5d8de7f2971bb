"""kill -9 of Hermes, of the process beside it, and of both: nothing that `sync_turn` acknowledged is lost, doubled or
filed in another session, at Hindsight and at Honcho.

A turn that was not acknowledged may arrive or not, but never twice. A process that has our plugin stands for Hermes
here; tests/hermes_real/test_kill_real.py does the same with the real Hermes. The short run is part of every test run;
the hundred runs are marked `soak`.
"""

import sys
from pathlib import Path

import pytest

from tests.hermes.kill_campaign import Campaign, make_campaign_home
from tests.support.hermes_service import memory_servers

WRITER = Path(__file__).with_name("hermes_writer.py")


async def run(tmp_path, seed, rounds):
    async with memory_servers() as servers:
        home = make_campaign_home(tmp_path / "home", servers)
        campaign = Campaign(home, servers, seed, writer=(sys.executable, WRITER, home.path))
        await campaign.run(rounds)
        print(campaign.check())  # noqa: T201 - shown with -s


@pytest.mark.timeout(600)
async def test_nothing_acknowledged_is_lost_or_doubled(tmp_path):
    await run(tmp_path, seed=14, rounds=2)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", range(10))
async def test_nothing_is_lost_in_a_hundred_runs(tmp_path, seed):
    await run(tmp_path, seed=seed, rounds=10)
