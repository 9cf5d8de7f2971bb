"""The promise: what an operator looks at is found by indexes of open rows, however many rows are closed.

On SQLite, whose planner has no statistics and decides for an empty store as for a large one.
"""

import pytest

from holdfast.monitor import foreign_id_sql, queues_sql, status_sql, tail_sql
from holdfast.store.script import Call, rows
from holdfast.store.sqlite.writer import ThreadedDatabase

GIVEN = {"after": 0, "limit": 50, "shown_ms": 1, "kept_ms": 1, "unserved_ms": 1, "n": 1}
LARGE = {"inbound", "turn", "entry", "reply", "delivery", "activity", "session", "lane"}
STATEMENTS = {
    "open messages": (status_sql.RUNNING, {"inbound": "inbound_open"}),
    "queues": (queues_sql.QUEUES, {"inbound": "inbound_open", "delivery": "delivery_", "reply": "reply_state"}),
    "failing deliveries": (status_sql.FAILING, {"delivery": "delivery_lane"}),
    "replies to decide": (status_sql.UNDECIDED_REPLIES, {"reply": "reply_state"}),
    "open replies": (tail_sql.OPEN_REPLIES, {"reply": "reply_open"}),
    "open deliveries": (tail_sql.OPEN_DELIVERIES, {"delivery": "delivery_lane"}),
    "new replies": (tail_sql.REPLIES, {}),
    "new deliveries": (tail_sql.DELIVERIES, {}),
    "new activities": (tail_sql.ACTIVITIES, {}),
    "new messages": (tail_sql.MESSAGES, {}),
    "receipts of replies": (foreign_id_sql.BY_REPLY_RECEIPT, {"reply": ""}),  # the newest rows, a limited number
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_reads_a_whole_table(driver, name):
    if not isinstance(driver.db, ThreadedDatabase):
        pytest.skip("PostgreSQL plans by statistics")
    sql, scanned = STATEMENTS[name]
    plan = await driver.db.read(Call("plan", lambda: rows(f"explain query plan {sql}", id="x", **GIVEN)))
    steps = [row[3] for row in plan]
    scans = [step.split() for step in steps if step.startswith("SCAN")]
    for _, table, *using in scans:
        assert table not in LARGE or scanned.get(table, "no index") in " ".join(using), steps
