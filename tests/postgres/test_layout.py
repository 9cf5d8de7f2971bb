"""Rows that a turn changes soon after they were written are changed in place on PostgreSQL (HOT)."""

from holdfast.store.node_sql import register_node
from holdfast.store.script import Call, rows
from holdfast.testing import ManualClock
from tests.support.driver import Driver
from tests.support.engines import open_engine

TURNS = 40
FILLED = "select relname, reloptions from pg_class where relkind = 'r' and relname = any(string_to_array(:names, ','))"
CHANGED = "select relname, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = current_schema()"
HOT = ("mailbox", "session", "turn", "inbound", "reply", "delivery", "lane", "cursor", "node")
IN_PLACE_MIN = 0.9


async def test_a_turn_is_changed_in_place_and_every_hot_table_leaves_room(postgres_server, tmp_path):
    clock = ManualClock()
    async with open_engine("postgres", tmp_path, clock, postgres_server) as database:
        driver = Driver(database, clock)
        await database.write(register_node(driver.node, "here", sole=False))
        before = await changes(database)
        await driver.chat(*(f"word {n}" for n in range(TURNS)))
        after = await changes(database)
        filled = await database.read(Call("filled", lambda: rows(FILLED, names=",".join(HOT))))
    for table in ("turn", "session"):
        changed, in_place = (after[table][n] - before.get(table, (0, 0))[n] for n in (0, 1))
        assert changed >= TURNS, table
        assert in_place >= IN_PLACE_MIN * changed, table
    assert {name for name, options in filled if any("fillfactor" in one for one in options or ())} == set(HOT)


async def changes(database):
    def script():
        yield from rows("select pg_stat_force_next_flush()")

    await database.write(Call("flush", script))
    return {name: (all_, hot) for name, all_, hot in await database.write(Call("changed", lambda: rows(CHANGED)))}
