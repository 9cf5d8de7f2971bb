"""`make walk` follows one message from its sender to its reply and to memory."""

from tools.walk import folder, walk_once


async def test_a_walk_meets_every_part_of_the_way_counts_each_call_once_and_stays_short():
    walk = await walk_once()
    met = {walk.place(code) for code in walk.functions}
    assert {"inbox/gateway.py", "turns/runner.py", "models/practice.py", "providers/local/provider.py"} <= met
    assert {"store/sqlite/batch.py", "turns/turn_sql.py"} <= met, "the threads of the store count too"
    assert walk.totals["calls"] == sum(walk.functions.values())
    assert walk.totals["functions"] >= walk.totals["files"] > 0
    assert 0 < walk.totals["crossings"] < walk.totals["calls"]
    assert not [place for place in met if folder(place).startswith("testing")]
    assert walk.totals["calls"] <= 1_900
    assert walk.totals["functions"] <= 380
    assert walk.totals["crossings"] <= 300
    # On a slow machine a renewal of the node's lease may fall into the walk, with its three files.
    assert walk.totals["files"] <= 60 + 3
