"""The promise: a verb is one transaction. Cut off before any statement, it leaves no trace; repeated, it works."""

from dataclasses import replace

import pytest

from holdfast.inbox.accept_sql import accept_message
from holdfast.inbox.mailbox_sql import read_mail
from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import AgentName, DeliveryId, Provider, SessionId
from holdfast.memory.cursor_sql import schedule_overdue
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.lane import LaneKey, Settlement
from holdfast.memory.lane_sql import claim_lanes, settle_lanes
from holdfast.memory.replay_sql import backfill_sessions, replay_delivery
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.summary_sql import commit_summary
from holdfast.store.node_sql import reap_nodes
from holdfast.store.script import Call, rows
from holdfast.store.upkeep_sql import prune_messages
from holdfast.turns.open_turn_sql import observe_messages, open_turn
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn_sql import append_step, commit_turn, resume_turn
from tests.support.driver import LIMITS, SECRET, record, retain, returned, tool_step
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

    async def write(self, call):
        return await self._database.write(Call(call.verb, lambda: self._cut(call.verb, iter(call)), call.lock))

    async def read(self, call):
        return await self._database.read(call)

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
    return lambda db: db.write(accept_message(arrival, LIMITS, SECRET))


async def signals(driver):
    await driver.say("one")
    await driver.open(await driver.claim())
    arrival = driver.arrival("/stop")
    return lambda db: db.write(accept_message(arrival, LIMITS, SECRET))


async def opens(driver):
    await driver.talk("zero")
    await driver.say("one")
    claim = await driver.claim()
    mail = await driver.db.read(read_mail(claim, limit=1))
    opening = driver.opening(mail.session, mail.waiting, retry=True)
    return lambda db: db.write(open_turn(claim, opening))


async def steps(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    return lambda db: db.write(append_step(claim, turn, tool_step()))


async def resumes(driver):
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.open(claim)
    return lambda db: db.write(resume_turn(claim, turn))


async def commits(driver):
    driver.policies = (retain(), retain("other"))
    await driver.say("one")
    claim = await driver.claim()
    turn = await driver.db.write(append_step(claim, await driver.open(claim), tool_step()))
    turn = await driver.db.write(append_step(claim, turn, returned()))
    commit = driver.commit()
    return lambda db: db.write(commit_turn(claim, turn, commit))


async def observes(driver):
    heard = await driver.say("psst", addressed=False)
    claim = await driver.claim()
    return lambda db: db.write(observe_messages(claim, SessionId("ses_x"), [heard]))


async def records(driver):
    return lambda db: db.write(record_turn(record("k1", policies=(retain(),))))


async def summarises(driver):
    session = await driver.chat("one", "two")
    operation, draft = await driver.begin(session), await driver.draft(session, through=2)
    return lambda db: db.write(commit_summary(operation, draft))


async def reaps(driver):
    session = await driver.chat("one")
    await driver.say("two")
    await driver.claim()
    await driver.begin(session)
    driver.clock.advance(1_000)
    return lambda db: db.write(reap_nodes(lease_ms=1_000))


async def prunes(driver):
    await driver.chat("one", "two")
    driver.clock.advance(1_000)
    return lambda db: db.write(prune_messages(older_than_ms=1, limit=10, secret=SECRET))


async def claims_lanes(driver):
    driver.policies = (retain(),)
    await driver.chat("one", "two")
    return lambda db: db.write(claim_lanes(driver.node, LANES, name="c", units=2))


async def settles_lanes(driver):
    driver.policies = (retain(),)
    await driver.chat("one", "two")
    (claim,) = await driver.db.write(claim_lanes(driver.node, LANES, units=2))
    done = [Settlement(n=package.n, state=DeliveryState.DELIVERED) for package in claim.packages]
    return lambda db: db.write(settle_lanes([(claim, done)]))


async def schedules_overdue(driver):
    driver.policies = (replace(retain(every_turns=5), max_wait_ms=1_000),)
    await driver.chat("one", "two")
    driver.clock.advance(1_000)
    return lambda db: db.write(schedule_overdue(limit=9))


async def replays(driver):
    driver.policies = (retain(),)
    session = await driver.chat("one")
    (claim,) = await driver.db.write(claim_lanes(driver.node, LANES))
    parked = Settlement(n=claim.packages[0].n, state=DeliveryState.PARKED)
    await driver.db.write(settle_lanes([(claim, [parked])]))
    return lambda db: db.write(replay_delivery(DeliveryId(f"mem:{session}:1")))


async def backfills(driver):
    await driver.chat("one", "two")
    return lambda db: db.write(backfill_sessions(AgentName("fern"), retain(), limit=9))


def commands(text):
    async def prepare(driver):
        driver.policies = (retain(every_turns=5),)
        idle = await driver.chat("one", chat="phone")
        session = await driver.chat("one", "two")
        written = text.format(idle=idle, delete=await driver.delete_text(session))
        message = await driver.say(written)
        claim = await driver.claim()
        run = driver.command_run(message, written)
        return lambda db: db.write(run_command(claim, run))

    prepare.__name__ = text.split(maxsplit=1)[0].strip("{}")
    return prepare


COMMANDS = [commands(text) for text in ("/new", "/resume {idle}", "/branch b", "/undo", "/title t", "{delete}")]
VERBS = [
    *(accepts, signals, opens, steps, resumes, commits, observes, records, summarises, reaps, prunes),
    *(claims_lanes, settles_lanes, schedules_overdue, replays, backfills),
    *COMMANDS,
]


async def everything(driver):
    return await driver.db.read(Call("look", _everything))


def _everything():
    found = {}
    for table in EVERY_TABLE:
        found[table] = sorted(map(str, (yield from rows(f"select * from {table}"))))
    return found


@pytest.mark.parametrize("prepare", VERBS, ids=lambda prepare: prepare.__name__)
async def test_a_verb_cut_off_anywhere_leaves_no_trace(driver, database, prepare):
    verb = await prepare(driver)
    cutting = Cutting(database)
    before = await everything(driver)
    for at in range(STATEMENTS_MAX):
        cutting.at = at
        try:
            await verb(cutting)
        except StoreUnavailable:
            assert await everything(driver) == before, f"cut off before statement {at}"
        else:
            break
    assert 0 < at < STATEMENTS_MAX - 1
    assert await everything(driver) != before
