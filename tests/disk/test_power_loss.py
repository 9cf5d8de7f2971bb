"""Nothing acknowledged is lost, and no script is half there, wherever and however the power fails.

The workload runs once; before each operation of the disk, several disks are drawn that a power loss at
that moment could leave, and each is started and judged. Only disks that differ are counted.
"""

import random

import pytest

from tests.disk.disk import Disk, Image
from tests.disk.workload import WORKLOADS, Ledger, Workload, judge, run_on

STATES_IN_CI = 1_300  # times four workloads: more than 5,000
STATES_IN_SOAK = 125_000
DRAWS_PER_OPERATION_MAX = 10_000


class PowerFailures:
    """Draws and judges crash states while a workload runs on the disk."""

    def __init__(self, disk: Disk, ledger: Ledger, *, draws: int, seed: int, again_every: int = 8) -> None:
        self.disk, self.ledger, self.draws = disk, ledger, draws
        self.chance = random.Random(seed)
        self.again_every = again_every
        self.states: set[int] = set()
        self.complaints: list[str] = []
        disk.watch = self.fail_here

    def fail_here(self) -> None:
        for _ in range(self.draws):
            self.start_on(self.disk.crash(self.chance), depth=0)

    def start_on(self, image: Image, depth: int) -> None:
        state = hash((tuple(sorted(image.items())), len(self.ledger.acknowledged)))
        if state in self.states:
            return
        self.states.add(state)
        fail_again = depth == 0 and len(self.states) % self.again_every == 0
        found = judge(image, self.ledger, self.fail_once_during_recovery if fail_again else None)
        self.complaints += [f"operation {self.disk.operations}: {complaint}" for complaint in found]

    def fail_once_during_recovery(self, disk: Disk) -> None:
        at = self.chance.randrange(1, 30)

        def watch() -> None:
            if disk.operations == at:
                self.start_on(disk.crash(self.chance), depth=1)

        disk.watch = watch


def operations_of(workload: Workload) -> int:
    disk = Disk()
    run_on(disk, workload, Ledger())
    return disk.operations


def fail_everywhere(workload: Workload, states: int, *, seed: int = 0, **weaker: object) -> PowerFailures:
    """Draw until so many different states were judged; `weaker` breaks the promise on purpose."""
    lies, synchronous = bool(weaker.get("lies")), str(weaker.get("synchronous", "extra"))
    draws = max(2, states // operations_of(workload))
    seen: set[int] = set()
    while draws < DRAWS_PER_OPERATION_MAX:
        disk, ledger = Disk(lies=lies), Ledger()
        failures = PowerFailures(disk, ledger, draws=draws, seed=seed)
        failures.states = seen
        run_on(disk, workload, ledger, synchronous)
        failures.fail_here()
        if failures.complaints or len(seen) >= states:
            return failures
        seed += 1
    raise AssertionError("too few states")


@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_acknowledged_is_lost_wherever_the_power_fails(name):
    failures = fail_everywhere(WORKLOADS[name], STATES_IN_CI)
    assert failures.complaints == []
    assert len(failures.states) >= STATES_IN_CI


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_acknowledged_is_lost_in_many_more_states(name):
    failures = fail_everywhere(WORKLOADS[name], STATES_IN_SOAK, seed=1_000)
    assert failures.complaints == []


def test_the_judge_sees_what_a_weaker_synchronous_loses():
    failures = fail_everywhere(WORKLOADS["one by one"], STATES_IN_CI, synchronous="normal")
    assert any("acknowledged and lost" in complaint for complaint in failures.complaints)


def test_the_judge_sees_a_disk_that_lies_about_syncing():
    failures = fail_everywhere(WORKLOADS["with checkpoints"], STATES_IN_CI, lies=True)
    assert failures.complaints != []
