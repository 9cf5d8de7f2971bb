"""The promise: what an operator looks at is found by indexes of open rows, however many rows are closed.

On SQLite, whose planner has no statistics and decides for an empty store as for a large one.
"""

import pytest

from holdfast.monitor import (
    foreign_id_sql,
    message_outcome_sql,
    queues_sql,
    status_sql,
    tail_sql,
    turn_words_sql,
    undecided_sql,
)
from holdfast.outbox import reply_sql
from holdfast.store.script import Call, rows
from holdfast.turns import approval_view_sql

GIVEN = {
    "agent": "",
    "channel": "",
    "state": "failed",
    "before": 9,
    "session": "",
    "turn": 1,
    "after": 0,
    "limit": 50,
    "shown_ms": 1,
    "kept_ms": 1,
    "unserved_ms": 1,
    "n": 1,
    **{f"m{n}": "x" for n in range(message_outcome_sql.ASKED_MAX)},
}
LARGE = {"inbound", "turn", "entry", "reply", "delivery", "activity", "session", "lane"}


def calls_of(listed):
    return approval_view_sql.ALL_CALLS.format(listed=listed, of_turn=approval_view_sql.OF_TURN)


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
    "replies of a state": (reply_sql.PAGE_OF_STATE, {"reply": "reply_state"}),
    "lanes that wait": (undecided_sql.LANES, {"delivery": "delivery_lane"}),
    "number of lanes": (undecided_sql.COUNT, {"delivery": "delivery_lane"}),
    "parked deliveries": (undecided_sql.PARKED, {"delivery": "delivery_parked"}),
    "replies for a person": (undecided_sql.UNDECIDED, {"reply": "reply_state"}),
    "outcomes of a page": (message_outcome_sql.OUTCOMES, {}),
    "words of a turn": (turn_words_sql.OF_TURN, {}),
    "a call that waits": (approval_view_sql.CALLS, {}),
    "calls that wait": (calls_of(approval_view_sql.OPEN), {}),
    "calls that waited": (calls_of(approval_view_sql.NEWEST), {}),
    "receipts of replies": (foreign_id_sql.BY_REPLY_RECEIPT, {"reply": ""}),  # the newest rows, a limited number
}


@pytest.mark.parametrize("database", ["threaded"], indirect=True)
@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_reads_a_whole_table(driver, name):
    sql, scanned = STATEMENTS[name]
    plan = await driver.db.read(Call("plan", lambda: rows(f"explain query plan {sql}", id="x", **GIVEN)))
    steps = [row[3] for row in plan]
    scans = [step.split() for step in steps if step.startswith("SCAN")]
    for _, table, *using in scans:
        assert table not in LARGE or scanned.get(table, "no index") in " ".join(using), steps
