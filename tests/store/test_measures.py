"""The promise: each commit of an engine is measured once, with the calls that shared it; a refused one is not."""

import asyncio

import pytest

from holdfast.store.damage import CheckedEngine
from holdfast.store.measures import Distribution, StoreMeasures
from holdfast.store.sqlite.writer import ThreadedDatabase
from holdfast.store.upkeep_sql import prove_write
from holdfast.testing import ManualClock


def test_an_observation_counts_in_the_first_bucket_that_holds_it():
    found = Distribution((1, 2, 4))
    for size in (0.5, 1, 2, 3, 4, 5, 99):
        found.observe(size)
    assert (found.counts, found.total) == ([2, 1, 2, 2], 114.5)


def test_a_commit_that_fails_is_not_counted():
    measures = StoreMeasures()
    with pytest.raises(OSError, match="full"), measures.commit(3):
        raise OSError("full")
    assert sum(measures.commit_seconds.counts) == 0
    with measures.commit(3):
        pass
    assert (sum(measures.commit_seconds.counts), measures.batch_calls.total) == (1, 3)


async def test_each_engine_measures_its_commits(db):
    if not isinstance(db, CheckedEngine) or db.measures is None:
        pytest.skip("the engine of simulations runs in one thread and measures nothing")
    seconds = db.measures.commit_seconds
    before = sum(seconds.counts)
    await db.write(prove_write())  # type: ignore[attr-defined]  # it is a `Database` too
    assert sum(seconds.counts) == before + 1
    assert seconds.total > 0


async def test_calls_that_wait_share_a_commit(tmp_path):
    db = ThreadedDatabase.open(tmp_path / "store.db", ManualClock())
    try:
        await asyncio.gather(*(db.write(prove_write()) for _ in range(50)))
        assert db.measures is not None
        found = db.measures.batch_calls
        assert found.total == 50
        assert sum(found.counts) < 50
        assert (db.free_bytes() or 0) > 0
    finally:
        await db.close()
