"""A store with an approval that was asked for before there were digests opens, and the approval is decided."""

from contextlib import asynccontextmanager

import pytest

from holdfast.audit.action_sql import list_actions
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail
from holdfast.kernel.errors import ApprovalChanged, ApprovalDigestNeeded, InvariantBroken
from holdfast.kernel.ids import ApprovalId, NodeId
from holdfast.store.node_sql import register_node
from holdfast.store.schema import read_steps
from holdfast.store.script import Call, run
from holdfast.store.sqlite import ThreadedDatabase
from holdfast.store.sqlite.migrate import load_migrations
from holdfast.store.sqlite.opening import open_ready
from holdfast.testing import ManualClock
from holdfast.turns.approval import Decision
from holdfast.turns.approval_sql import decide_approval
from holdfast.turns.approval_view_sql import find_approval, list_approvals
from holdfast.turns.call_view import call_digest, short_digest
from holdfast.turns.journal import AssistantSaid, ToolCall, ToolStarted, UserSaid, encode_body
from holdfast.turns.turn import Step, TurnEvent
from holdfast.turns.turn_sql import append_step
from tests.support.servers import fresh_schema, postgres_database

STEP = next(n for n, step in enumerate(load_migrations()) if "alter table approval add column digest" in step)
ID = ApprovalId("K7M2QX")
SHORT = ToolCall(id="c1", name="pay", arguments='{"amount": 3}')
LONG = ToolCall(id="c1", name="pay", arguments='{"note": "' + "x" * 601 + '"}')
FILL = (
    """insert into mailbox (id, agent, address, session_id, depth, ready_at, waits_until)
       values ('box', 'main', 'agent:main:http:dm:ada', 'ses', 1, 9000000000000, 9000000000000)""",
    "insert into address (address, mailbox_id) values ('agent:main:http:dm:ada', 'box')",
    """insert into session (id, agent, mailbox, principal, purpose, state, last_seq, committed_seq, turns, open_turn,
                            summaries, opened_at, active_at)
       values ('ses', 'main', 'box', 'ada', 'conversation', 'open', 2, 0, 1, 1, 0, 1, 1)""",
    """insert into turn (session, n, phase, attempt, fence, lease_fence, mailbox, place, principal, first_seq, last_seq,
                         opened_at, approval)
       values ('ses', 1, 'awaiting', 1, 0, 0, 'box', 'agent:main:http:dm:ada', 'ada', 1, 2, 1, 'K7M2QX')""",
    """insert into inbound (message, mailbox, seq, account, conversation, event_id, body_hash, principal, channel, kind,
                            human, hop, body, state, session, turn, at)
       values ('msg', 'box', 1, 'main', 'ada', 'e', :user, 'ada', 'http', 'text', 1, 0, :user, 'in_turn', 'ses', 1,
               1)""",
    """insert into entry (session, seq, turn, kind, tokens, fence, lease_fence, at, body)
       values ('ses', 1, 1, 'user', 1, 0, 0, 1, :user)""",
    """insert into entry (session, seq, turn, kind, tokens, fence, lease_fence, at, body)
       values ('ses', 2, 1, 'assistant', 1, 0, 0, 1, :wish)""",
    """insert into approval (id, session, turn, call, tool, mailbox, principal, approvers, yields, asked_at, due_at)
       values ('K7M2QX', 'ses', 1, 'c1', 'pay', 'box', 'ada', '', 0, 1, 9000000000000)""",
)


def values(call):
    return {
        "user": encode_body(UserSaid(text="pay him", principal="ada", message="msg")),
        "wish": encode_body(AssistantSaid(text="", calls=(call,))),
    }


def filling(call):
    for sql in FILL:
        yield from run(sql, **{name: value for name, value in values(call).items() if f":{name}" in sql})


@asynccontextmanager
async def sqlite(folder, _request, call):
    db = open_ready(folder / "store.db", load_migrations()[:STEP])
    for sql in FILL:
        db.execute(sql, values(call))
    db.close()
    database = ThreadedDatabase.open(folder / "store.db", ManualClock())
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def postgres(_folder, request, call):
    server = request.getfixturevalue("postgres_server")
    async with fresh_schema(server) as schema:
        async with postgres_database(server, schema=schema, migrations=read_steps()[:STEP]) as old:
            await old.write(Call("fill", lambda: filling(call)))
        async with postgres_database(server, schema=schema) as database:
            yield database


async def decided(db, **how):
    """A worker's claim and the turn that it finds decided."""
    done = await db.write(decide_approval(ID, Decision.APPROVED, named="operator", **how))
    assert done.decision is Decision.APPROVED
    await db.write(register_node(NodeId("node_a"), "here", sole=True))
    claim = await db.write(claim_mailbox(NodeId("node_a")))
    mail = await db.read(read_mail(claim, limit=1))
    return claim, mail.turn


def begins(call: ToolCall) -> Step:
    return Step(event=TurnEvent.DECIDED, entries=(ToolStarted(call="c1", name="pay"),), starts=call)


@pytest.mark.parametrize("opening", [sqlite, postgres])
async def test_an_old_approval_is_decided_and_its_very_call_starts(tmp_path, request, opening):
    async with opening(tmp_path, request, SHORT) as database:
        db = database
        (view,) = await db.read(list_approvals())
        assert (view.digest, view.cut) == (call_digest("pay", SHORT.arguments, b""), False)
        claim, turn = await decided(db)
        changed = ToolCall(id="c1", name="pay", arguments='{"amount": 9999}')
        with pytest.raises(InvariantBroken, match="another call"):
            await db.write(append_step(claim, turn, begins(changed)))
        assert (await db.write(append_step(claim, turn, begins(SHORT)))).approval is None
        (row,) = [row for row in await db.read(list_actions()) if row.verb == "approval.decided"]
        assert "digest" not in row.detail, "without a salt it could confirm a guess at words that are forgotten"


@pytest.mark.parametrize("opening", [sqlite, postgres])
async def test_an_old_question_that_showed_600_characters_of_more_needs_the_digest(tmp_path, request, opening):
    async with opening(tmp_path, request, LONG) as database:
        db = database
        view = await db.read(find_approval(ID))
        assert (view.cut, view.arguments) == (True, LONG.arguments)
        with pytest.raises(ApprovalDigestNeeded):
            await db.write(decide_approval(ID, Decision.APPROVED, named="operator"))
        with pytest.raises(ApprovalChanged):
            await db.write(decide_approval(ID, Decision.APPROVED, named="operator", digest="0123-4567-89ab"))
        claim, turn = await decided(db, digest=short_digest(view.digest))
        assert (await db.write(append_step(claim, turn, begins(LONG)))).approval is None
