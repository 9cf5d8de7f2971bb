"""A store that was filled before tokens were bound keeps its tokens, as relays, and its messages."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.auth.access_token import UNSAID, hash_token
from holdfast.api.auth.access_token_sql import find_token, list_tokens, revoke_token
from holdfast.kernel.ids import MessageId, TokenId
from holdfast.sessions.history_sql import trace_message
from holdfast.store.schema import read_steps
from holdfast.store.script import Call, run
from holdfast.store.sqlite import ThreadedDatabase
from holdfast.store.sqlite.migrate import load_migrations
from holdfast.store.sqlite.opening import open_ready
from holdfast.testing import ManualClock
from tests.support.servers import fresh_schema, postgres_database

STEP = next(n for n, step in enumerate(load_migrations()) if "alter table token add column relay" in step)
FILL = [
    """insert into token (id, hash, label, scopes, agents, made_at, robot)
       values ('tok_old', :hash, 'web', 'read send', 'ada', 1, 1)""",
    "insert into mailbox (id, agent, address) values ('box', 'main', 'agent:main:http:dm:ada')",
    """insert into inbound (message, mailbox, seq, account, conversation, event_id, body_hash, principal, channel, kind,
                            human, hop, body, state, at)
       values ('msg_old', 'box', 1, 'main', 'ada', 'e', :hash, 'ada', 'http', 'text', 1, 0, :hash, 'answered', 1)""",
]
VALUES = {"hash": hash_token("old")}


@asynccontextmanager
async def sqlite(folder, _request):
    db = open_ready(folder / "store.db", load_migrations()[:STEP])
    for sql in FILL:
        db.execute(sql, VALUES)
    db.close()
    database = ThreadedDatabase.open(folder / "store.db", ManualClock())
    try:
        yield database
    finally:
        await database.close()


def filling():
    for sql in FILL:
        yield from run(sql, **({} if ":hash" not in sql else VALUES))


@asynccontextmanager
async def postgres(_folder, request):
    server = request.getfixturevalue("postgres_server")
    async with fresh_schema(server) as schema:
        async with postgres_database(server, schema=schema, migrations=read_steps()[:STEP]) as old:
            await old.write(Call("fill", filling))
        async with postgres_database(server, schema=schema) as database:
            yield database


@pytest.mark.parametrize("opening", [sqlite, postgres])
async def test_old_tokens_and_messages_stay(tmp_path, request, opening):
    async with opening(tmp_path, request) as database:
        db = database
        found = await db.read(find_token(hash_token("old")))
        assert found is not None
        assert (found.binding, found.is_unconfirmed, found.robot, found.agents) == (
            UNSAID,
            True,
            True,
            frozenset({"ada"}),
        )
        assert await db.read(list_tokens()) == [found]
        assert (await db.read(trace_message(MessageId("msg_old")))).token == ""
        assert (await db.write(revoke_token(TokenId("tok_old")))).revoked_at is not None
