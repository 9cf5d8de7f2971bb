"""A limit of SQLite that no engine above it can remove: its checksum of the log does not see every tear.

The checksum is linear. Where the old frame under a recycled log and the new one differ in the same byte of
each word only, as with bodies that repeat a counter, some torn frames pass, and a row comes back with parts
of another. All subsets of the sectors of each last unsynced write are tried, so this needs no luck.
"""

import apsw
import pytest

from tests.disk.disk import SECTOR_BYTES, Disk, Image, OpenFile, apply
from tests.disk.workload import WORKLOADS, Body, Ledger, judge, random_body, run_on

WRITE_BYTES_MIN = 1_024  # smaller writes are headers


def counter_body(number: int, size: int) -> bytes:
    return number.to_bytes(4, "big") * (size // 4)


def tears(disk: Disk) -> list[Image]:
    """Every disk on which some sectors of the last write to the log did not land."""
    log = disk.seen.get("t.db-wal")
    offset, data = log.pending[-1] if log and log.pending else (0, None)
    if log is None or data is None or len(data) < WRITE_BYTES_MIN:
        return []
    whole = bytearray(log.durable)
    for change in log.pending[:-1]:
        apply(whole, *change)
    starts = range(0, len(data), SECTOR_BYTES)
    found = []
    for landed in range(1 << len(starts)):
        torn = bytearray(whole)
        for n, start in enumerate(starts):
            if landed >> n & 1:
                apply(torn, offset + start, data[start : start + SECTOR_BYTES])
        found.append({name: bytes(inode.durable) for name, inode in disk.seen.items()} | {"t.db-wal": bytes(torn)})
    return found


def complaints_after_tears(body_of: Body, *, at_most: int = 1_000_000) -> list[str]:
    """What is wrong with the torn disks, each judged once; no more are judged once so many complaints are found."""
    disk, ledger = Disk(), Ledger(body_of)
    found: list[str] = []
    judged: set[int] = set()

    def watch() -> None:
        if 150 <= disk.operations <= 240:  # the log has begun again from the front, over old frames
            for image in tears(disk) if len(found) < at_most else []:
                state = hash((tuple(sorted(image.items())), len(ledger.acknowledged)))
                if state not in judged:  # a write is pending during several operations, and a sector may be as before
                    judged.add(state)
                    found.extend(judge(image, ledger))

    disk.watch = watch
    run_on(disk, WORKLOADS["with checkpoints"], ledger)
    return found


@pytest.fixture(params=["nothing is promised", "a write spares its neighbours"])
def _device(request, monkeypatch):
    """The second is what SQLite assumes on Linux, macOS and Windows; then no frame is written twice."""
    if request.param != "nothing is promised":
        promise = apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE
        monkeypatch.setattr(OpenFile, "xDeviceCharacteristics", lambda file: promise)


@pytest.mark.usefixtures("_device")
def test_every_tear_of_random_bodies_is_seen():
    assert complaints_after_tears(random_body) == []


@pytest.mark.usefixtures("_device")
def test_some_tears_of_counting_bodies_are_not_seen():
    """When this fails, SQLite has a better checksum, and docs/explanation/durability.md may say so."""
    assert complaints_after_tears(counter_body, at_most=1) != []
