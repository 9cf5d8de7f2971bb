"""The promise: a verb is one transaction. Cut off before any statement, it leaves no trace; repeated, it works."""

from dataclasses import replace

import pytest

from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import AgentName, DeliveryId, Provider
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.lane import LaneKey, Settlement
from holdfast.store.script import rows
from holdfast.store.sql_store import SqlStore
from tests.support.driver import LIMITS, record, retain, returned, tool_step
from tests.support.engines import ENGINES

pytestmark = pytest.mark.parametrize("database", ENGINES, indirect=True)
STATEMENTS_MAX = 100
LANES = LaneKey(AgentName("fern"), Provider("mem"))
EVERY_TABLE = (
    *("node", "mailbox", "address", "inbound", "tombstone", "session", "turn", "entry"),
    *("summary", "operation", "cursor", "lane", "delivery", "reply"),
    *("memory", "memory_batch", "memory_op"),
)


class Cutting:
    """A database whose scripts are cut off before their statement number `at`, counted over all writes of a verb."""

    def __init__(self, database):
        self._database = database
        self.at = STATEMENTS_MAX

    async def write(self, verb, script, *, name=""):
        return await self._database.write(verb, lambda: self._cut(verb, script()), name=name)

    async def read(self, verb, script):
        return await self._database.read(verb, script)

    def _cut(self, verb, script):
        answer = None
        try:
            while True:
                statement = script.send(answer)
                if self.at == 0:
                    raise StoreUnavailable(f"{verb}: cut off")
                self.at -= 1
                answer = yield statement
        except StopIteration as returned_:
            return returned_.value


async def accepts(driver):
    arrival = driver.arrival("hello", chat="elsewhere")
    return lambda store: store.accept(arrival, LIMITS)


async def signals(driver):
    await driver.say("one")
    await driver.open(await driver.claim())
    arrival = driver.arrival("/stop")
    return lambda store: store.accept(arrival, LIMITS)


async def opens(driver):
    await driver.talk("zero")
    await driver.say("one")
    claim = await driver.claim()
    mail = await driver.store.read_mail(claim, limit=1)
    opening = driver.opening(mail.session, mail.waiting, retry=True)
    return lambda store: store.open_turn(claim, opening)


async def steps(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    return lambda store: store.append_step(claim, turn, tool_step())


async def resumes(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    return lambda store: store.resume_turn(claim, turn)


async def commits(driver):
    driver.policies = (retain(), retain("other"))
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.store.append_step(claim, await driver.open(claim), tool_step())
    turn = await driver.store.append_step(claim, turn, returned())
    commit = driver.commit()
    return lambda store: store.commit_turn(claim, turn, commit)


async def observes(driver):
    heard = await driver.say("psst", addressed=False)
    claim = await driver.claim()
    return lambda store: store.observe(claim, "ses_x", [heard])


async def records(driver):
    return lambda store: store.record_turn(record("k1", policies=(retain(),)))


async def summarises(driver):
    session = await driver.chat("one", "two")
    operation, draft = await driver.begin(session), await driver.draft(session, through=2)
    return lambda store: store.commit_summary(operation, draft)


async def reaps(driver):
    session = await driver.chat("one")
    await driver.say("two")
    await driver.claim()
    await driver.begin(session)
    driver.clock.advance(1_000)
    return lambda store: store.reap_nodes(lease_ms=1_000)


async def prunes(driver):
    await driver.chat("one", "two")
    driver.clock.advance(1_000)
    return lambda store: store.prune(older_than_ms=1, limit=10)


async def claims_lanes(driver):
    driver.policies = (retain(),)
    await driver.chat("one", "two")
    return lambda store: store.claim_lanes(driver.node, LANES, name="c", units=2)


async def settles_lanes(driver):
    driver.policies = (retain(),)
    await driver.chat("one", "two")
    (claim,) = await driver.store.claim_lanes(driver.node, LANES, units=2)
    done = [Settlement(n=package.n, state=DeliveryState.DELIVERED) for package in claim.packages]
    return lambda store: store.settle_lanes([(claim, done)])


async def schedules_overdue(driver):
    driver.policies = (replace(retain(every_turns=5), max_wait_ms=1_000),)
    await driver.chat("one", "two")
    driver.clock.advance(1_000)
    return lambda store: store.schedule_overdue(limit=9)


async def replays(driver):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await driver.store.claim_lanes(driver.node, LANES)
    parked = Settlement(n=claim.packages[0].n, state=DeliveryState.PARKED)
    await driver.store.settle_lanes([(claim, [parked])])
    return lambda store: store.replay_delivery(DeliveryId(f"mem:{session}:1"))


async def backfills(driver):
    await driver.chat("one", "two")
    return lambda store: store.backfill(AgentName("fern"), retain(), limit=9)


def commands(text):
    async def prepare(driver):
        driver.policies = (retain(every_turns=5),)
        idle = await driver.chat("one", chat="phone")
        session = await driver.chat("one", "two")
        written = text.format(idle=idle, delete=await driver.delete_text(session))
        message = await driver.say(written)
        claim = await driver.claim()
        run = driver.command_run(message, written)
        return lambda store: store.run_command(claim, run)

    prepare.__name__ = text.split(maxsplit=1)[0].strip("{}")
    return prepare


COMMANDS = [commands(text) for text in ("/new", "/resume {idle}", "/branch b", "/undo", "/title t", "{delete}")]
VERBS = [
    *(accepts, signals, opens, steps, resumes, commits, observes, records, summarises, reaps, prunes),
    *(claims_lanes, settles_lanes, schedules_overdue, replays, backfills),
    *COMMANDS,
]


async def everything(driver):
    return await driver.database.read("look", _everything)


def _everything():
    found = {}
    for table in EVERY_TABLE:
        found[table] = sorted(map(str, (yield from rows(f"select * from {table}"))))
    return found


@pytest.mark.parametrize("prepare", VERBS, ids=lambda prepare: prepare.__name__)
async def test_a_verb_cut_off_anywhere_leaves_no_trace(driver, database, prepare):
    verb = await prepare(driver)
    cutting = Cutting(database)
    store = SqlStore(cutting, driver.store._secret)  # type: ignore[arg-type]
    before = await everything(driver)
    for at in range(STATEMENTS_MAX):
        cutting.at = at
        try:
            await verb(store)
        except StoreUnavailable:
            assert await everything(driver) == before, f"cut off before statement {at}"
        else:
            break
    assert 0 < at < STATEMENTS_MAX - 1
    assert await everything(driver) != before
