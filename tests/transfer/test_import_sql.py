"""What was exported comes back equal to the byte, once; nothing that was delivered or sent is delivered or sent again;
and a file that is cut, changed or newer, or contradicts the store, changes nothing."""

import json
from typing import Any, cast

import apsw
import pytest

from holdfast.audit.action_sql import list_actions
from holdfast.kernel import errors
from holdfast.kernel.ids import AgentName, NodeId, Principal, Provider
from holdfast.memory.delivery import DeliveryPolicy, PerAddress
from holdfast.repair.findings_sql import read_findings
from holdfast.runtime import transfer
from holdfast.store.membership import LEASE_MS
from holdfast.store.script import Call, rows, run
from holdfast.store.sqlite.migrate import load_migrations
from holdfast.transfer.import_sql import import_rows
from holdfast.transfer.lines import FORMAT, check_whole, header, rows_in
from holdfast.transfer.tables import TABLES
from holdfast.turns.agent_pause_sql import pause_agent, resume_agent
from tests.support.ports import make_ports

MEM = DeliveryPolicy(provider=Provider("mem"), naming=PerAddress())
ROWS = """
insert into identity (principal, person, at)
values ('ada', 'ada', 5), ('telegram:7', 'ada', 5), ('stranger', 'other', 5);
insert into linked_speaker (mailbox, principal) select id, 'telegram:7' from mailbox;
insert into activity (session, turn, fence, kind, name, started_at, ended_at, outcome, detail)
select session, n, fence, 'model', 'practice', 1, 2, 'answered', :detail from turn where closed_at is not null;
insert into attachment (hash, size, at, body) values ('h1', 3, 5, :picture);
insert into enclosure (message, n, hash, name, media_type, size)
select message, 0, 'h1', 'cat.png', 'image/png', 3 from inbound order by seq limit 1;
insert into memory (stream, agent, subject, head) values ('memory:fern:', 'fern', '', 1);
insert into memory_batch (stream, origin, seqs, at) values ('memory:fern:', 'cli_1', '1', 5);
insert into memory_op (stream, seq, agent, subject, target, op, place, text, old_text, origin, position, written_by,
                       principal, live, at)
values ('memory:fern:', 1, 'fern', '', 'memory', 'add', 1, :note, :empty, 'cli_1', 0, 'operator', '', 1, 5);
insert into reply (id, mailbox, message, agent, channel, address, state, due_at, at, body)
select 'rep_open', id, 'msg', 'fern', 'telegram', 'agent:fern:telegram:dm:1', 'pending', 1, 5, :note from mailbox
 order by id limit 1
"""
VALUES = {"detail": b"{}", "picture": b"\x89PN", "note": b"Ada lives in Rome.", "empty": b""}


@pytest.fixture
async def store(driver):
    """Chats with a summary, an undone turn, a branch, an end, notes, an attachment, links, and work under way."""
    driver.policies = (MEM,)
    session = await driver.chat("one", "two", "three")
    await driver.summarise(session)
    await driver.command("/undo")
    await driver.command("/branch")
    await driver.chat("four")
    await driver.command("/new")
    await driver.chat("other", chat="club")
    for sql in ROWS.split(";"):
        wanted = {name: value for name, value in VALUES.items() if f":{name}" in sql}
        await driver.write(sql, **wanted)
    await driver.say("under way", chat="club")
    claim = await driver.claim("club")
    await driver.open(claim)
    yield driver.db
    await driver.write("update mailbox set owner = null, depth = 0, ready_at = null")
    await driver.write("delete from inbound")  # the ledgers of a store that was emptied by hand do not agree
    for table in ("turn", "entry", "session", "delivery", "cursor", "summary", "finalisation", "mailbox", "lane"):
        await driver.write(f"delete from {table}")


class Reading:
    """What an export needs of a runtime."""

    def __init__(self, db):
        self.db, self.clock = db, make_ports(db).clock


async def lines_of(db, *, agent="", chat=""):
    scope = await transfer.find_scope(db, agent=agent, chat=chat, session="")
    return [
        line
        async for line in transfer.export(cast("Any", Reading(db)), scope, transfer.ExportCounts(), lambda *_: None)
    ]


async def empty(db):
    def script():
        for name in (*TABLES, "lane"):
            yield from run(f"delete from {name}")

    await db.write(Call("empty", script))


async def take(db, lines):
    end = check_whole(lines)
    return await db.write(import_rows(end.sha256, lambda: rows_in(lines)))


def rows_of(lines, table):
    return [row.values for row in rows_in(lines) if row.table == table]


def test_every_column_is_exported_or_left_out_on_purpose():
    db = apsw.Connection(":memory:")
    for step in load_migrations():
        db.execute(step)
    for name, table in TABLES.items():
        columns = {row[1] for row in db.execute(f"pragma table_info({name})")}
        exported = {one.name for one in table.columns}
        assert columns == exported | set(table.fixed) | table.left_out, name
        assert not exported & (set(table.fixed) | table.left_out), name
    db.close()


async def test_an_export_imported_into_an_empty_store_is_exported_again_equal_to_the_byte(store):
    first = await lines_of(store)
    assert {row.table for row in rows_in(first)} == set(TABLES)
    await empty(store)
    new = await take(store, first)
    assert sum(new.values()) == check_whole(first).rows
    again = await lines_of(store)
    assert again[1:] == first[1:], "only the header has a time"
    (act,) = [one for one in await store.read(list_actions()) if one.verb == "sessions.imported"]
    assert (act.subject, dict(act.detail)) == (check_whole(first).sha256, dict(new))
    found = await store.read(read_findings(lease_ms=LEASE_MS))
    assert set(found) <= {"trail_gap"}, found


async def test_a_repeated_import_does_nothing(store):
    lines = await lines_of(store)
    await empty(store)
    await take(store, lines)
    assert await take(store, lines) == {}
    assert await lines_of(store) != []
    assert len([one for one in await store.read(list_actions()) if one.verb == "sessions.imported"]) == 1


async def test_what_is_open_or_under_way_is_exported_at_rest(store):
    lines = await lines_of(store)
    assert "under way" not in b"\n".join(lines).decode()
    assert {one["state"] for one in rows_of(lines, "delivery")} <= {"uncertain", "delivered", "dropped", "retracted"}
    (reply,) = [one for one in rows_of(lines, "reply") if one["id"] == "rep_open"]
    assert (reply["state"], reply["doubts"]) == ("uncertain", 2)
    assert {one["state"] for one in rows_of(lines, "inbound")}.isdisjoint({"waiting", "in_turn"})


async def test_a_delivery_that_was_open_is_due_again_and_its_provider_is_asked(store):
    from holdfast.memory.lane import LaneKey
    from holdfast.memory.lane_sql import claim_lanes
    from holdfast.store.node_sql import register_node

    lines = await lines_of(store)
    await empty(store)
    await take(store, lines)
    node = NodeId("node_new")
    await store.write(register_node(node, "here", sole=False))
    claims = await store.write(claim_lanes(node, LaneKey(AgentName("fern"), Provider("mem")), name="c", lanes=9))
    assert claims
    assert all(package.ask for claim in claims for package in claim.packages)


async def test_a_chat_is_exported_with_its_sessions_and_without_the_others(store):
    lines = await lines_of(store, chat="club")
    texts = b"\n".join(lines).decode()
    assert ("other" in texts, "four" in texts, "Ada lives in Rome" in texts) == (True, False, False)
    home = b"\n".join(await lines_of(store, chat="home")).decode()
    assert all(word in home for word in ("one", "three", "four")), "a branch comes with its parent"
    assert {one["principal"] for one in rows_of(await lines_of(store), "identity")} == {"ada", "telegram:7"}


async def test_a_session_comes_with_the_one_that_it_was_branched_from_wherever_that_was(driver, store):
    await driver.write(
        "update session set mailbox = 'elsewhere' where id in (select parent_id from session) and parent_id is null"
    )
    said = b" ".join(one["body"] for one in rows_of(await lines_of(store, chat="home"), "entry"))
    assert all(word in said for word in (b'"one"', b'"four"'))


async def test_an_agent_that_is_not_there_and_a_chat_that_is_not_are_named(store):
    with pytest.raises(errors.AgentNotFound):
        await lines_of(store, agent="nobody")
    with pytest.raises(errors.AddressNotFound):
        await lines_of(store, chat="nowhere")
    with pytest.raises(errors.SessionNotFound):
        await transfer.find_scope(store, agent="", chat="", session="ses_nowhere")


@pytest.mark.parametrize(
    "sql",
    [
        "update session set title = 'mine'",
        "update entry set body = :body where kind = 'assistant'",
        "update memory_op set text = :body",
        "update attachment set body = :body",
        "update identity set person = 'somebody else' where principal = 'telegram:7'",
    ],
)
async def test_an_id_that_is_there_with_other_content_is_refused_and_nothing_is_imported(driver, store, sql):
    lines = await lines_of(store)
    await driver.write("delete from inbound")
    await driver.write(sql, **({"body": b'{"text":"changed"}'} if ":body" in sql else {}))
    with pytest.raises(errors.ImportConflict, match="other content"):
        await take(store, lines)
    assert await driver.rows("select count(*) from inbound") == [(0,)]


def sealed(lines):
    """The lines with a digest that fits."""
    from holdfast.transfer.lines import ExportDigest

    digest = ExportDigest()
    for line in lines[1:-1]:
        digest.add(line)
    return [*lines[:-1], digest.end_line()]


GOOD = [
    header(holdfast="0", at=1, scope="everything"),
    b'{"table":"identity","principal":"ada","person":"ada","at":1}',
    b'{"table":"attachment","hash":"h","size":1,"at":1,"body":{"base64":"iQ=="}}',
]


def changed(n, line):
    return sealed([*GOOD[:n], line, *GOOD[n + 1 :], b""])


FILES = {
    "empty": [],
    "cut behind a row": sealed([*GOOD, b""])[:-1],
    "cut within a row": [*GOOD[:2], GOOD[2][:20]],
    "a row was removed": [GOOD[0], GOOD[2], sealed([*GOOD, b""])[-1]],
    "a row was changed": [GOOD[0], GOOD[1].replace(b"ada", b"bob"), *sealed([*GOOD, b""])[2:]],
    "something follows the end": [*sealed([*GOOD, b""]), b"{}"],
    "another file": [b'{"hello": 1}', *GOOD[1:]],
    "no JSON": [b"hello", *GOOD[1:]],
    "an unknown table": changed(1, b'{"table":"token","id":"t"}'),
    "an unknown column": changed(1, b'{"table":"identity","principal":"a","person":"a","at":1,"more":1}'),
    "a missing column": changed(1, b'{"table":"identity","principal":"a","at":1}'),
    "a wrong type": changed(1, b'{"table":"identity","principal":"a","person":7,"at":1}'),
    "a truth value": changed(1, b'{"table":"identity","principal":"a","person":"a","at":true}'),
    "a number that is too large": changed(1, b'{"table":"identity","principal":"a","person":"a","at":1e30}'),
    "a NUL": changed(1, b'{"table":"identity","principal":"a\\u0000","person":"a","at":1}'),
    "no base64": changed(2, b'{"table":"attachment","hash":"h","size":1,"at":1,"body":{"base64":"%"}}'),
    "an entry that no journal has": changed(
        2,
        b'{"table":"entry","session":"s","seq":1,"turn":1,"kind":"user","tokens":1,"fence":1,"lease_fence":1,"at":1,'
        b'"body":"{}"}',
    ),
}


def read_all(lines):
    check_whole(lines)
    return list(rows_in(lines))


@pytest.mark.parametrize("lines", FILES.values(), ids=FILES)
def test_a_file_that_is_no_whole_export_is_refused(lines):
    with pytest.raises(errors.ExportInvalid):
        read_all(lines)


def test_an_export_of_a_newer_format_is_refused():
    newer = json.dumps({"holdfast_export": FORMAT + 1}).encode()
    with pytest.raises(errors.ExportNewer):
        check_whole([newer, *GOOD[1:]])


def test_a_good_file_is_taken():
    lines = sealed([*GOOD, b""])
    assert check_whole(lines).rows == 2
    assert [row.table for row in rows_in(lines)] == ["identity", "attachment"]
    assert [row.values for row in rows_in(lines)][1]["body"] == b"\x89"
    assert Principal("ada") == rows_of(lines, "identity")[0]["principal"]


async def test_chats_of_a_paused_agent_are_paused_after_an_import(store):
    lines = await lines_of(store)
    await empty(store)
    await store.write(pause_agent(AgentName("fern")))
    await take(store, lines)
    found = await store.read(Call("look", lambda: rows("select distinct agent, paused from mailbox")))
    assert found == [("fern", 1)]
    await store.write(resume_agent(AgentName("fern")))
