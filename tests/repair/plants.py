"""Faults that tests plant in a store, one for each code, in the SQL of both engines."""

from holdfast.store.script import Call, Script, run

LONG_AGO = "1000"
INSERT_REPLY = """
insert into reply (id, mailbox, message, agent, channel, address, state, attempt, doubts, owner, due_at, at, body)
select 'rep_left', id, 'msg_left', agent, 'telegram', 'agent:main:telegram:dm:1', 'attempting', 1, {doubts}, {owner}, 1,
       1, cast('hi' as bytea) from mailbox limit 1"""
OPEN_DELIVERY = """
insert into delivery (id, agent, provider, place, stream, from_seq, through_seq, from_turn, through_turn, op, principal,
                      state, suspect, due_at, failing_at, reason, at)
values ('mem:planted:{n}', 'main', 'mem', 'planted', 'planted', {n}, {n}, {n}, {n}, 'retain', 'ada', 'scheduled',
        {suspect}, 1, 1, {reason}, 1)"""
LANE = "insert into lane (agent, provider, place, due_at) values ('main', 'mem', 'planted', {due_at})"
CURSOR = "insert into cursor (provider, stream, scheduled_seq, settled_seq) values ('mem', 'planted', 9, {settled})"
NODE = "insert into node (id, host, started_at, heartbeat_at) values ('node_dead', 'here', 1, 1)"

PLANTS: dict[str, tuple[str, ...]] = {
    "node_dead": (NODE,),
    "claim_orphaned": ("update mailbox set owner = 'node_gone', claim = 'c', ready_at = 1",),
    "reply_attempting": (INSERT_REPLY.format(owner="null", doubts=0),),
    "lane_blocked": (
        LANE.format(due_at=99_999_999_999_999),
        OPEN_DELIVERY.format(n=1, suspect=3, reason="'the words are not accepted'"),
        OPEN_DELIVERY.format(n=2, suspect=0, reason="null"),
    ),
    "lane_asleep": (LANE.format(due_at="null"), OPEN_DELIVERY.format(n=1, suspect=0, reason="null")),
    "mailbox_asleep": (
        "update inbound set state = 'waiting', turn = null, session = null",
        "update mailbox set depth = 1, ready_at = null",
    ),
    "mailbox_miscounted": ("update mailbox set depth = 3",),
    "message_stranded": ("update inbound set state = 'in_turn'", "update mailbox set depth = 1, ready_at = 1"),
    "attachment_missing": (
        """insert into enclosure (message, n, hash, name, media_type, size)
           select message, 0, 'no such bytes', 'cat.png', 'image/png', 3 from inbound""",
    ),
    "attachment_orphaned": (
        "insert into attachment (hash, size, at, body) values ('lone', 2, 1, cast('hi' as bytea))",
    ),
    "cursor_ahead": (
        LANE.format(due_at=1),
        OPEN_DELIVERY.format(n=5, suspect=0, reason="null"),
        CURSOR.format(settled=9),
    ),
    "journal_gap": ("delete from entry where seq = 2",),
    "trail_gap": ("insert into action_head (id, n, digest) values (1, 7, cast('x' as bytea))",),
}
# By hand only: no repair can bring back what is gone, or should hide it.
LASTING = {"attachment_missing", "journal_gap", "trail_gap"}


def plant(code: str, *, sqlite: bool) -> Call[None]:
    """The statements of a fault as one script."""

    def script() -> Script[None]:
        for sql in PLANTS[code]:
            yield from run(sql.replace("bytea", "blob") if sqlite else sql)

    return Call(f"plant_{code}", script)
