"""One `driver` per engine that serves users; engines.py says what runs on the simulator's engine as well.

Whatever a test did, the ledgers must agree with each other afterwards.
"""

import pytest

from holdfast.store.node_sql import register_node
from holdfast.store.script import Call
from holdfast.testing import ManualClock
from tests.contract.driver import Driver
from tests.contract.engines import SERVING, open_engine
from tests.contract.ledger import faults_in
from tests.servers import postgres_server

__all__ = ["postgres_server"]


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(params=SERVING)
async def database(request, tmp_path, clock):
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    async with open_engine(request.param, tmp_path, clock, server) as opened:
        yield opened


@pytest.fixture
async def db(database):
    opened = database
    yield opened
    faults = await database.read(Call("check", faults_in))
    assert faults == [], "the ledgers disagree"


@pytest.fixture
async def driver(db, database, clock):
    made = Driver(db, clock)
    await db.write(register_node(made.node, "here", sole=False))
    return made
