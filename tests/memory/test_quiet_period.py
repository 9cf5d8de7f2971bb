"""An interrupted write to Honcho waits for its quiet period, and only deliveries that depend on it wait with it.

The dispatcher, the store, the vendor's client and the socket are real. The clock jumps from one due time to the next,
so a test counts quiet periods without waiting for them.
"""

from collections import Counter
from dataclasses import replace

import pytest

from holdfast.memory.notes import MemoryVerb
from holdfast.providers.honcho import make_honcho
from holdfast.testing import ManualClock
from holdfast.testing.inline_database import InlineDatabase
from tests.support.delivery_by_hand import stepped
from tests.support.fakes import soon
from tests.support.honcho_kit import NAME, setup_of

MANY = 50
QUIET_MS = 30_000


@pytest.fixture
async def by_hand(server, tmp_path):
    clock = ManualClock()
    database = InlineDatabase(tmp_path / "holdfast.db", clock, synchronous="off")
    configured = make_honcho(replace(setup_of({"url": server.url}, folder=tmp_path), clock=clock))
    made = await stepped(database, clock, configured, NAME)
    yield made
    await made.providers.close()
    await made.db.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_fifty_conclusions_under_cut_off_writes_take_a_few_quiet_periods(server, by_hand, seed):
    """One lane. Each write that is cut off waits 30 s, and they wait at the same time."""
    faults = ({"kind": "drop_after", "method": "POST"}, {"kind": "reset_before", "method": "POST"})
    cut_off = tuple(fault | {"path": "/conclusions$"} for fault in faults)
    server.fail_often(0.2, seed=seed, faults=cut_off)
    for n in range(MANY):
        await by_hand.note(n, f"conclusion {n}")
    took_ms = await soon(by_hand.until_rest())
    assert await by_hand.states() == {"delivered": MANY}
    assert Counter(row["content"] for row in server.conclusions()) == {f"conclusion {n}": 1 for n in range(MANY)}
    assert took_ms <= 5 * QUIET_MS


async def test_a_change_of_an_uncertain_note_waits_for_it_and_the_rest_does_not(server, by_hand):
    await by_hand.note(0, "likes tea")
    await soon(by_hand.until_rest())
    server.fail_next("reset_before", path="/conclusions$", method="POST")
    await by_hand.note(1, "has a cat")
    await soon(by_hand.settle_due())
    await by_hand.note(2, "has a dog", old="has a cat", verb=MemoryVerb.REPLACE)
    await by_hand.note(3, "has two dogs", old="has a dog", verb=MemoryVerb.REPLACE)
    await by_hand.note(4, "is tall")
    await soon(by_hand.settle_due())
    assert sorted(row["content"] for row in server.conclusions()) == ["is tall", "likes tea"]
    assert await by_hand.states() == {"delivered": 2, "uncertain": 1, "scheduled": 2}
    assert QUIET_MS <= await soon(by_hand.until_rest()) < 2 * QUIET_MS
    assert sorted(row["content"] for row in server.conclusions()) == ["has two dogs", "is tall", "likes tea"]
