"""The promise: charts are made of what nodes counted; a minute without a node is a hole, a repeated call counts once,
and old samples go.
"""

import pytest

from holdfast.kernel.ids import Instant, NodeId
from holdfast.kernel.notifier import Event
from holdfast.monitor.sample import HOUR_MS, MINUTE_MS, Sample, SampleSpan, added_up
from holdfast.monitor.sample_sql import list_samples, record_sample
from holdfast.monitor.sampler import Sampler
from holdfast.store.membership import Member
from tests.support.driver import retain
from tests.support.ports import make_ports

NOON = Instant(1_700_000_000_000 - 1_700_000_000_000 % HOUR_MS)
HERE, THERE = NodeId("here"), NodeId("there")


def minute(n, **counts):
    return Sample(span=SampleSpan.MINUTE, at=Instant(NOON + n * MINUTE_MS), counts=counts, levels={"waiting/fern": n})


async def hours(db):
    return [(one.at, dict(one.counts)) for one in await db.read(list_samples(SampleSpan.HOUR, Instant(0)))]


async def test_an_hour_is_the_sum_of_its_minutes(db):
    await db.write(record_sample(HERE, minute(0, accepted=2)))
    await db.write(record_sample(HERE, minute(59, accepted=3, answered=1)))
    await db.write(record_sample(HERE, minute(60, accepted=7)))
    assert await hours(db) == [(NOON, {"accepted": 5, "answered": 1}), (NOON + HOUR_MS, {"accepted": 7})]
    first = (await db.read(list_samples(SampleSpan.HOUR, Instant(0))))[0]
    assert first.levels == {"waiting/fern": 59}


async def test_a_repeated_call_counts_once(db):
    for _ in range(3):
        await db.write(record_sample(HERE, minute(0, accepted=2)))
    assert await hours(db) == [(NOON, {"accepted": 2})]
    assert len(await db.read(list_samples(SampleSpan.MINUTE, Instant(0)))) == 1


async def test_nodes_are_added_up_but_what_they_all_see_is_not(db):
    await db.write(record_sample(HERE, minute(5, accepted=2)))
    await db.write(record_sample(THERE, minute(5, accepted=4)))
    found = added_up(await db.read(list_samples(SampleSpan.MINUTE, NOON)))
    assert [(one.counts, one.levels) for one in found.values()] == [({"accepted": 6}, {"waiting/fern": 5})]


async def test_a_minute_without_a_node_is_a_hole(db):
    await db.write(record_sample(HERE, minute(1, accepted=1)))
    await db.write(record_sample(HERE, minute(4, accepted=1)))
    found = await db.read(list_samples(SampleSpan.MINUTE, NOON))
    assert [one.at - NOON for one in found] == [MINUTE_MS, 4 * MINUTE_MS]


async def test_old_samples_go(db):
    await db.write(record_sample(HERE, minute(0, accepted=1)))
    await db.write(record_sample(HERE, minute(26 * 60, accepted=1)))
    assert [one.at for one in await db.read(list_samples(SampleSpan.MINUTE, Instant(0)))] == [NOON + 26 * HOUR_MS]
    assert len(await hours(db)) == 2
    await db.write(record_sample(HERE, minute(94 * 24 * 60, accepted=1)))
    assert len(await hours(db)) == 1


async def sampler_on(driver, ports):
    member = Member(ports, host="here")
    await member.join(sole=False)
    return Sampler(ports, member)


def publish(ports, name, /, **fields):
    ports.notifier.publish(Event(name=name, fields=fields))


async def test_the_sampler_stores_what_it_counted_once_the_minute_is_over(driver):
    driver.policies = (retain(),)
    await driver.talk("hello")
    ports = make_ports(driver.db, clock=driver.clock)
    sampler = await sampler_on(driver, ports)
    began = SampleSpan.MINUTE.start_of(driver.clock.now())
    publish(ports, "message.accepted", agent="fern")
    publish(ports, "turn.answered", agent="fern")
    activity = {"kind": "model", "name": "m", "outcome": "answered"}
    publish(ports, "turn.activity", agent="fern", duration_ms=40, tokens_in=7, tokens_out=2, **activity)
    publish(ports, "delivery.settled", agent="fern", provider="mem", state="delivered")
    publish(ports, "reply.settled", agent="fern", channel="telegram", state="uncertain")
    publish(ports, "turn.delta", agent="fern")
    await sampler.step()
    assert await driver.db.read(list_samples(SampleSpan.MINUTE, Instant(0))) == []
    driver.clock.advance(MINUTE_MS)
    await sampler.step()
    (stored,) = await driver.db.read(list_samples(SampleSpan.MINUTE, Instant(0)))
    assert stored.at == began
    assert stored.counts == {
        "accepted/fern": 1,
        "answered/fern": 1,
        "model/fern": 1,
        "model ms/fern": 40,
        "tokens_in/fern": 7,
        "tokens_out/fern": 2,
        "deliveries/delivered/fern/mem": 1,
        "replies/uncertain/fern/telegram": 1,
    }
    assert stored.levels == {"undelivered/fern/mem": 1, "lag_ms/fern/mem": MINUTE_MS}
    driver.clock.advance(MINUTE_MS)
    await sampler.step()
    assert (await driver.db.read(list_samples(SampleSpan.MINUTE, Instant(0))))[-1].counts == {}


async def test_a_minute_that_could_not_be_stored_is_stored_later(driver, monkeypatch):
    ports = make_ports(driver.db, clock=driver.clock)
    sampler = await sampler_on(driver, ports)
    publish(ports, "message.accepted", agent="fern")
    driver.clock.advance(MINUTE_MS)
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.monitor.sampler.record_sample", lambda *_: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await sampler.step()
    driver.clock.advance(MINUTE_MS)
    publish(ports, "message.accepted", agent="fern")
    driver.clock.advance(MINUTE_MS)
    await sampler.step()
    counts = [one.counts for one in await driver.db.read(list_samples(SampleSpan.MINUTE, Instant(0)))]
    assert counts == [{"accepted/fern": 1}, {"accepted/fern": 1}]
