"""A power loss at any moment loses no acknowledged write and leaves no script half applied.

The workload runs once; before each operation of the disk, several disks are drawn that a power loss at
that moment could leave, and each is started and judged. Only disks that differ are counted.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.store.script import Call, Script, run
from holdfast.testing.inline_database import InlineDatabase
from tests.disk.disk import Disk, Image
from tests.disk.workload import WORKLOADS, Ledger, Workload, judge, random_body, run_on

STATES_IN_CI = 1_000  # times four workloads: several at each operation of the disk
STATES_IN_SOAK = 125_000
RUNS_MAX = 1_000


class PowerFailures:
    """Draws and judges crash states while a workload runs on the disk."""

    def __init__(self, disk: Disk, ledger: Ledger, *, draws: int, seed: int, again_every: int = 8) -> None:
        self.disk, self.ledger, self.draws = disk, ledger, draws
        self.chance = random.Random(seed)
        self.again_every = again_every
        self.states: set[int] = set()
        self.complaints: list[str] = []
        self.evidence: list[Image] = []
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
        self.evidence += [image] * bool(found)
        self.complaints += [f"operation {self.disk.operations}: {complaint}" for complaint in found]

    def keep_evidence(self, folder: Path) -> str:
        """Write the bad disks into a folder, since no seed brings them back."""
        for n, image in enumerate(self.evidence):
            for name, content in image.items():
                (folder / f"{n}-{name}").write_bytes(content)
        return f"{len(self.evidence)} bad disks are kept in {folder}"

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


async def three_commits(ledger: Ledger, start: Callable[[], InlineDatabase]) -> None:
    db = start()
    for number in (1, 2, 3):
        await ledger.keep(db, number)
    db.crash()


async def three_more(ledger: Ledger, start: Callable[[], InlineDatabase]) -> None:
    ledger.asked |= {1, 2, 3}  # perhaps kept by the life before
    db = start()
    for number in (4, 5, 6):
        await ledger.keep(db, number)
    db.crash()


def beginnings_of_a_file() -> list[Image]:
    """Disks that a power loss before the first commit may leave."""
    disk, ledger, chance = Disk(), Ledger(), random.Random(0)
    found: list[Image] = []

    def watch() -> None:
        if not ledger.acknowledged:
            found.extend(disk.crash(chance) for _ in range(3))

    disk.watch = watch
    run_on(disk, three_commits, ledger)
    return [image for n, image in enumerate(found) if image not in found[:n]]


def fail_everywhere(
    workload: Workload, states: int, *, seed: int = 0, lies: bool = False, synchronous: str = "extra"
) -> PowerFailures:
    """Draw until so many different states were judged, or one was found bad."""
    draws = max(2, states // operations_of(workload))
    seen: set[int] = set()
    for attempt in range(seed, seed + RUNS_MAX):
        disk, ledger = Disk(lies=lies), Ledger()
        failures = PowerFailures(disk, ledger, draws=draws, seed=attempt)
        failures.states = seen
        run_on(disk, workload, ledger, synchronous)
        failures.fail_here()
        if failures.complaints or len(seen) >= states:
            break
    return failures


@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_acknowledged_is_lost_wherever_the_power_fails(name, tmp_path):
    failures = fail_everywhere(WORKLOADS[name], STATES_IN_CI)
    assert failures.complaints == [], failures.keep_evidence(tmp_path)
    assert len(failures.states) >= STATES_IN_CI


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_acknowledged_is_lost_in_many_more_states(name, tmp_path):
    failures = fail_everywhere(WORKLOADS[name], STATES_IN_SOAK, seed=1_000)
    assert failures.complaints == [], failures.keep_evidence(tmp_path)


def test_a_power_loss_while_the_file_is_made_leaves_no_trap_for_later_commits():
    """A journal of the making could come back to life and undo what was committed after it."""
    beginnings = beginnings_of_a_file()
    states = 0
    for seed, image in enumerate(beginnings):
        disk, ledger = Disk(image), Ledger()
        failures = PowerFailures(disk, ledger, draws=2, seed=seed)
        run_on(disk, three_more, ledger)
        assert failures.complaints == []
        states += len(failures.states)
    assert any("t.db-journal" in image for image in beginnings)
    assert states >= 1_000


# --- the judge is not blind ----------------------------------------------------------------------


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_the_judge_sees_what_a_weaker_synchronous_loses(synchronous):
    failures = fail_everywhere(WORKLOADS["one by one"], STATES_IN_CI, synchronous=synchronous)
    assert any("acknowledged and lost" in complaint for complaint in failures.complaints)


def test_the_judge_sees_a_disk_that_lies_about_syncing():
    failures = fail_everywhere(WORKLOADS["with checkpoints"], STATES_IN_CI, lies=True)
    assert any("acknowledged and lost" in complaint for complaint in failures.complaints)


def test_the_judge_sees_a_script_split_in_two_transactions():
    def half(table: str) -> Callable[[], Script[None]]:
        return lambda: run(f"insert into {table} (n, body) values (1, :body)", body=random_body(1, 1))

    async def split(ledger: Ledger, start: Callable[[], InlineDatabase]) -> None:
        db = start()
        ledger.asked.add(1)
        await db.write(Call("first half", half("turn")))
        await db.write(Call("second half", half("outbox")))
        await db.close()

    failures = fail_everywhere(split, 50)
    assert any("half a script" in complaint for complaint in failures.complaints)
