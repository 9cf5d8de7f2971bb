"""A disk that reports errors: every failure reaches a caller, and nothing acknowledged is lost to it.

A full disk fails the callers with `StoreFull` and the engine goes on when there is space again. Any other
failed commit breaks the engine: it refuses every later write, and starting again recovers.
"""

import asyncio
import random
import sys
from contextlib import suppress
from typing import Any

import apsw
import pytest

from holdfast.kernel.errors import HoldfastError, InvalidInput, StoreBroken, StoreFull, StoreUnavailable
from holdfast.store.script import Call, Script, run
from tests.disk.disk import Disk, Fault, mounted
from tests.disk.workload import WORKLOADS, Ledger, judge, keep, open_on, refuse, run_on

IO_ERROR, FULL = apsw.IOError, apsw.FullError
FAULTS = {
    "a write": ("write", IO_ERROR),
    "a sync": ("sync", IO_ERROR),
    "a read": ("read", IO_ERROR),
    "a truncation": ("truncate", IO_ERROR),
    "an open": ("open", apsw.CantOpenError),
}


@pytest.fixture(autouse=True)
def _faults_while_closing_are_expected(monkeypatch):
    """SQLite does not report that the checkpoint of a close failed, so apsw reports it as unraisable."""
    report = sys.unraisablehook

    def hook(unraisable):
        if str(unraisable.exc_value) != "injected":
            report(unraisable)

    monkeypatch.setattr(sys, "unraisablehook", hook)


def once(kind: str, error: type[apsw.Error], nth: int) -> Fault:
    """The nth operation of a kind fails, and no other."""
    seen = 0

    def fault(operation: str, name: str) -> Exception | None:
        nonlocal seen
        seen += operation == kind
        return error("injected") if operation == kind and seen == nth else None

    return fault


def writes_fail_with(error: type[apsw.Error]) -> Fault:
    return lambda kind, name: error("injected") if kind == "write" else None


def syncs_fail(kind: str, name: str) -> Exception | None:
    return IO_ERROR("injected") if kind == "sync" else None


def count(kind: str, workload: str) -> int:
    disk = Disk()
    seen: list[str] = []

    def fault(operation: str, name: str) -> None:
        seen.append(operation)

    disk.fault = fault
    run_on(disk, WORKLOADS[workload], Ledger())
    return seen.count(kind)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("what", FAULTS)
def test_nothing_acknowledged_is_lost_when_one_operation_fails(what, workload):
    """Each operation fails once; then the power fails too, since a failed sync forgets pages."""
    kind, error = FAULTS[what]
    for nth in range(1, count(kind, workload) + 1):
        disk, ledger = Disk(seed=nth), Ledger()
        disk.fault = once(kind, error, nth)
        with suppress(HoldfastError):  # opening or a checkpoint met the fault and said so
            run_on(disk, WORKLOADS[workload], ledger)
        disk.fault = None
        assert judge(disk.crash(random.Random(nth)), ledger) == [], f"{kind} {nth}"


async def test_a_full_disk_fails_the_batch_and_the_engine_goes_on_when_there_is_space():
    disk, ledger = Disk(), Ledger()
    with mounted(disk) as path:
        db = open_on(path)
        await ledger.keep(db, 1)
        disk.fault = writes_fail_with(FULL)
        await asyncio.gather(*(ledger.keep(db, number) for number in (2, 3, 4)))
        assert [type(error) for error in ledger.errors] == [StoreFull] * 3
        assert ledger.acknowledged == {1}
        disk.fault = None
        await asyncio.gather(*(ledger.keep(db, number) for number in (2, 3, 4)))
        assert ledger.acknowledged == {1, 2, 3, 4}
        assert judge(disk.crash(random.Random(0)), ledger) == []
        await db.close()


async def test_a_script_that_fills_the_disk_before_commit_fails_the_whole_batch():
    """A cache too small for the batch is spilled to the log while the scripts still run."""
    disk, ledger, ran = Disk(), Ledger(), []

    def late() -> Script[None]:
        ran.append("late")
        yield from run("select 1")

    with mounted(disk) as path:
        db = open_on(path)
        db._db.execute("pragma cache_size=10")
        disk.fault = writes_fail_with(FULL)
        batch = [ledger.keep(db, 1), ledger.keep(db, 2, size=400_000), ledger.keep(db, 3)]
        late_call = asyncio.ensure_future(db.write(Call("late", late)))
        await asyncio.gather(*batch)
        with pytest.raises(StoreFull):
            await late_call
        assert [type(error) for error in ledger.errors] == [StoreFull] * 3
        disk.fault = None
        await ledger.keep(db, 4)
        await db.close()
    assert judge(disk.image(), ledger) == []
    assert ledger.acknowledged == {4}


@pytest.mark.parametrize("fault", [writes_fail_with(IO_ERROR), syncs_fail], ids=["write", "sync"])
async def test_any_other_failed_commit_breaks_the_engine_until_it_is_started_again(fault):
    disk, ledger = Disk(seed=1), Ledger()
    told: list[Any] = []
    with mounted(disk) as path:
        db = open_on(path)
        db._on_broken = told.append
        await ledger.keep(db, 1)
        disk.fault = fault
        await asyncio.gather(ledger.keep(db, 2), ledger.keep(db, 3))
        disk.fault = None  # the disk recovers, the engine must not
        await ledger.keep(db, 4)
        assert [type(error) for error in ledger.errors] == [StoreBroken] * 3
        assert len(told) == 1
        await db.close()
        assert judge(disk.crash(random.Random(1)), ledger) == []
        again = open_on(path)
        await ledger.keep(again, 5)
        assert ledger.acknowledged == {1, 5}
        await again.close()


async def start_again_after_a_failed_sync(seed: int) -> list[str]:
    """The sync of a commit fails and forgets pages; the next process commits behind it; the power fails."""
    disk, ledger = Disk(seed=seed), Ledger()
    with mounted(disk) as path:
        db = open_on(path)
        await ledger.keep(db, 1)
        disk.fault = syncs_fail
        await ledger.keep(db, 2, size=20_000)
        disk.fault = None
        await db.close()
        again = open_on(path)
        await ledger.keep(again, 3)
        again.crash()
        assert ledger.acknowledged == {1, 3}
        return judge(disk.crash(random.Random(seed)), ledger)


async def test_a_new_start_does_not_build_on_pages_that_a_failed_sync_forgot():
    assert [await start_again_after_a_failed_sync(seed) for seed in range(50)] == [[]] * 50


async def test_without_the_log_written_again_a_new_start_does_build_on_them(monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.opening.rewrite_log", lambda path, vfs, key: None)
    found = [await start_again_after_a_failed_sync(seed) for seed in range(50)]
    assert ["acknowledged and lost: [3]"] in found


async def test_a_fault_while_reading_is_time_s_to_mend():
    disk = Disk()
    with mounted(disk) as path:
        db = open_on(path)
        await db.write(Call("keep", keep(1, size=400_000)))
        db.checkpoint()
        db._db.execute("pragma cache_size=10")
        disk.fault = lambda kind, name: IO_ERROR("injected") if kind == "read" else None
        with pytest.raises(StoreUnavailable):
            await db.read(Call("sum", lambda: run("select sum(length(body)), group_concat(body) from outbox")))
        disk.fault = None
        await db.write(Call("keep", keep(2)))
        await db.close()


async def test_one_refused_script_does_not_spoil_its_neighbours():
    disk = Disk()
    with mounted(disk) as path:
        db = open_on(path)
        before, refused, after = await asyncio.gather(
            db.write(Call("keep", keep(1))),
            db.write(Call("refuse", refuse(2))),
            db.write(Call("keep", keep(3))),
            return_exceptions=True,
        )
        assert (before, after) == (1, 3)
        assert isinstance(refused, InvalidInput)
        await db.close()
    ledger = Ledger()
    ledger.asked = ledger.acknowledged = {1, 3}
    ledger.refused = {2}
    assert judge(disk.image(), ledger) == []
