"""Settings and fixtures of every test: a slow machine fails no test, and a store can be had on each engine.

Hypothesis examples have no deadline, and the limit of a test counts the share of the machine that the test gets
(tests/support/time_limit.py). A test that takes `driver`, `db` or `database` runs once on each engine that serves
users; tests/support/engines.py says which tests run on the simulator's engine as well. After each of them the ledgers
of the store must agree with each other.
"""

import gc

import pytest
from hypothesis import settings

from holdfast.store.node_sql import register_node
from holdfast.store.script import Call
from holdfast.testing import ManualClock
from tests.support.driver import Driver
from tests.support.engines import SERVING, open_engine
from tests.support.ledger import faults_in
from tests.support.memory_folder import use_memory
from tests.support.servers import postgres_server
from tests.support.time_limit import pytest_timeout_cancel_timer, pytest_timeout_set_timer

__all__ = ["postgres_server", "pytest_timeout_cancel_timer", "pytest_timeout_set_timer"]

settings.register_profile("holdfast", deadline=None, print_blob=True)
settings.load_profile("holdfast")


def pytest_configure():
    use_memory()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What collection makes stays until the end. If it were not frozen, every full garbage collection would read it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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
    yield database
    faults = await database.read(Call("check", faults_in))
    assert faults == [], "the ledgers disagree"


@pytest.fixture
async def driver(db, clock):
    made = Driver(db, clock)
    await db.write(register_node(made.node, "here", sole=False))
    return made
