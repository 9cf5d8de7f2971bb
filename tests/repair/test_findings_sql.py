"""Each fault that is planted is found under its own code and no other, repaired once, and recorded; a store without
faults is left alone."""

import pytest

from holdfast.audit.action import ActorKind, By
from holdfast.audit.action_sql import list_actions
from holdfast.repair.finding import FAULTS, ordered
from holdfast.repair.findings_sql import QUERIES, SHOWN_MAX, read_findings
from holdfast.repair.store_repair_sql import repair_rows
from holdfast.store.membership import LEASE_MS
from holdfast.store.node_sql import register_node
from holdfast.store.script import Call, rows, run
from holdfast.store.sqlite.writer import ThreadedDatabase
from tests.repair.plants import INSERT_REPLY, LASTING, PLANTS, plant
from tests.support.driver import Driver

OPERATOR = By(kind=ActorKind.USER, id="root")


@pytest.fixture
async def store(database, clock):
    """A store with an answered message; its ledgers are about to contradict each other."""
    driver = Driver(database, clock)
    await database.write(register_node(driver.node, "here", sole=False))
    await driver.chat("hello")
    return database


def is_sqlite(db):
    return isinstance(db, ThreadedDatabase)


async def found(db):
    return await db.read(read_findings(lease_ms=LEASE_MS))


async def ask(db, sql):
    return await db.read(Call("ask", lambda: rows(sql)))


def test_every_kind_that_rows_show_is_planted():
    assert set(PLANTS) == set(QUERIES) <= set(FAULTS)
    assert {code for code in QUERIES if not FAULTS[code].is_repairable} == LASTING


async def test_a_store_without_faults_has_no_findings_and_is_not_changed(store):
    before = await ask(store, "select count(*) from action")
    assert await found(store) == {}
    assert await store.write(repair_rows(lease_ms=LEASE_MS)) == {}
    assert await ask(store, "select count(*) from action") == before


@pytest.mark.parametrize("code", PLANTS)
async def test_a_planted_fault_is_found_and_repaired_once(store, code):
    await store.write(plant(code, sqlite=is_sqlite(store)))
    seen = await found(store)
    assert set(seen) == {code}
    assert seen[code][0].subject
    (finding,) = ordered(seen)
    assert finding.fault.code == code
    done = await store.write(repair_rows(lease_ms=LEASE_MS, by=OPERATOR))
    if code in LASTING:
        assert (done, set(await found(store))) == ({}, {code})
        return
    assert done == {code: len(seen[code])}
    assert await found(store) == {}
    assert await store.write(repair_rows(lease_ms=LEASE_MS, by=OPERATOR)) == {}
    (act,) = await store.read(list_actions())
    assert (act.verb, act.by.id, dict(act.detail)) == ("store.repaired", "root", {code: len(seen[code])})


@pytest.mark.parametrize(("doubts", "state"), [(0, "pending"), (1, "uncertain")])
async def test_a_reply_that_was_left_is_sent_again_once_and_then_never(store, doubts, state):
    sql = INSERT_REPLY.format(owner="'node_gone'", doubts=doubts)
    await store.write(Call("plant", lambda: run(sql.replace("bytea", "blob") if is_sqlite(store) else sql)))
    assert "reply_attempting" in await found(store)
    await store.write(repair_rows(lease_ms=LEASE_MS))
    assert await ask(store, "select state, owner from reply where id = 'rep_left'") == [(state, None)]


async def test_a_delivery_that_blocks_is_parked_and_its_lane_goes_on(store):
    await store.write(plant("lane_blocked", sqlite=is_sqlite(store)))
    await store.write(repair_rows(lease_ms=LEASE_MS))
    states = await ask(store, "select state, reason from delivery where place = 'planted' order by n")
    assert [state for state, _ in states] == ["parked", "scheduled"]
    assert "the words are not accepted" in states[0][1]
    ((due_at,),) = await ask(store, "select due_at from lane where place = 'planted'")
    assert due_at < 99_999_999_999_999


async def test_a_cursor_is_set_back_to_what_is_proved(store):
    await store.write(plant("cursor_ahead", sqlite=is_sqlite(store)))
    await store.write(repair_rows(lease_ms=LEASE_MS))
    assert await ask(store, "select scheduled_seq, settled_seq from cursor where stream = 'planted'") == [(9, 4)]


async def test_a_stranded_message_gets_the_state_of_its_turn(store):
    await store.write(plant("message_stranded", sqlite=is_sqlite(store)))
    await store.write(repair_rows(lease_ms=LEASE_MS))
    assert await ask(store, "select state from inbound") == [("answered",)]


async def test_a_message_whose_turn_is_gone_waits_for_a_new_one(store):
    def lose():
        yield from run("update inbound set state = 'in_turn', turn = 99")
        yield from run("update mailbox set depth = 1")

    await store.write(Call("lose", lose))
    assert {"message_stranded", "mailbox_asleep"} == set(await found(store))
    await store.write(repair_rows(lease_ms=LEASE_MS))
    assert await found(store) == {}
    assert await ask(store, "select state, turn from inbound") == [("waiting", None)]
    ((ready_at,),) = await ask(store, "select ready_at from mailbox")
    assert ready_at is not None


async def test_claims_of_a_living_process_are_left_alone(store):
    def claim():
        yield from run("update mailbox set owner = (select id from node limit 1), claim = 'c', ready_at = 1, depth = 0")

    await store.write(Call("claim", claim))
    assert await found(store) == {}


async def test_much_evidence_is_cut(store):
    def plant_many():
        for n in range(SHOWN_MAX + 5):
            yield from run(
                "insert into attachment (hash, size, at, body) values (:hash, 0, 1, :body)", hash=str(n), body=b""
            )

    await store.write(Call("plant", plant_many))
    assert len((await found(store))["attachment_orphaned"]) == SHOWN_MAX + 1
    assert await store.write(repair_rows(lease_ms=LEASE_MS)) == {"attachment_orphaned": SHOWN_MAX + 5}
