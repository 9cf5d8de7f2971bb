"""The promise: each commit of an engine is measured once, with the calls that shared it; a refused one is not."""

import asyncio

import pytest

from holdfast.store.damage import UNREAD_MAX, CheckedEngine, Distribution, StoreMeasures
from holdfast.store.sqlite.writer import ThreadedDatabase
from holdfast.store.upkeep_sql import prove_write
from holdfast.testing import ManualClock


def test_an_observation_counts_in_the_first_bucket_that_holds_it():
    found = Distribution((1, 2, 4))
    for size in (0.5, 1, 2, 3, 4, 5, 99):
        found.observe(size)
    assert (found.counts, found.total) == ([2, 1, 2, 2], 114.5)


def test_commits_are_counted_when_somebody_reads_and_of_very_many_the_newest():
    measures = StoreMeasures()
    measures.commits.append((3, 0.002))
    measures.count()
    measures.count()
    assert (sum(measures.commit_seconds.counts), measures.batch_calls.total) == (1, 3)
    for _ in range(UNREAD_MAX + 5):
        measures.commits.append((1, 0.001))
    measures.count()
    assert sum(measures.batch_calls.counts) == UNREAD_MAX + 1


@pytest.mark.parametrize("database", ["threaded"], indirect=True)
async def test_the_engine_of_a_folder_measures_its_commits(db):
    assert isinstance(db, CheckedEngine)
    assert db.measures is not None
    db.measures.commits.clear()
    await db.write(prove_write())  # type: ignore[attr-defined]  # it is a `Database` too
    ((calls, seconds),) = db.measures.commits
    assert calls == 1
    assert seconds > 0


async def test_calls_that_wait_share_a_commit(tmp_path):
    db = ThreadedDatabase.open(tmp_path / "store.db", ManualClock())
    try:
        await asyncio.gather(*(db.write(prove_write()) for _ in range(50)))
        assert db.measures is not None
        db.measures.count()
        found = db.measures.batch_calls
        assert found.total == 50
        assert sum(found.counts) < 50
        assert (db.free_bytes() or 0) > 0
    finally:
        await db.close()
