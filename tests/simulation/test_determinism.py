"""The same seed gives the same history in this process, in another one, and under every hash seed (I18)."""

import os
import subprocess
import sys

import pytest

from holdfast.testing.history import scratch
from tests.simulation.short import short

SEEDS = range(20_000, 20_006)
SCRIPT = """
from holdfast.testing.history import scratch
from tests.simulation.short import short
with scratch() as folder:
    for seed in range({first}, {last}):
        print(short(seed, folder).digest)
"""


@pytest.fixture(scope="module")
def digests():
    with scratch() as folder:
        return [short(seed, folder).digest for seed in SEEDS]


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_another_process_lives_through_the_same_history(digests, hash_seed):
    script = SCRIPT.format(first=SEEDS.start, last=SEEDS.stop)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == digests


def test_seeds_differ(digests):
    assert len(set(digests)) == len(digests)


def test_the_same_process_may_live_through_it_again(digests):
    with scratch() as folder:
        assert [short(seed, folder).digest for seed in reversed(SEEDS)] == digests[::-1]
