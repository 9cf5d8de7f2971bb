"""The promise: whoever watches a store is told each message, turn, request, reply and delivery once, with its outcome,
however the looks fall between them.

Rules: R40.
"""

from itertools import count

import pytest

from holdfast.kernel.ports import make_id
from holdfast.memory.delivery import DeliveryState
from holdfast.monitor import tail_sql
from holdfast.monitor.tail_sql import read_tail, start_tail
from holdfast.monitor.timeline_step import Mark
from holdfast.outbox.post import ReplyState
from tests.monitor.stories import (
    Story,
    in_an_interrupted_turn,
    refused,
    resumed_after_a_kill,
    retain,
    waiting_for_approval,
)


@pytest.fixture(autouse=True)
def _ids_with_times(driver, monkeypatch):
    """A cursor follows the times in the ids of messages."""
    numbers = count()
    monkeypatch.setattr(driver, "id", lambda prefix: make_id(prefix, driver.clock.now(), next(numbers)))


class Watcher:
    """Somebody who looks when a test says so, and remembers everything that was told."""

    def __init__(self, driver):
        self.db = driver.db
        self.events = []

    async def start(self):
        self.cursor = await self.db.read(start_tail())
        return self

    async def look(self):
        page = await self.db.read(read_tail(self.cursor))
        self.cursor = page.cursor
        self.events += page.events
        return [(event.kind, event.what) for event in page.events]

    def whats(self, kind):
        return [event.what for event in self.events if event.kind == kind]


async def test_a_conversation_is_told_in_order_and_only_once(driver):
    story = Story(driver)
    driver.policies = retain("honcho")
    watcher = await Watcher(driver).start()
    message = await story.says(channel="telegram")
    assert await watcher.look() == [("message", "ada in home: accepted")]
    claim, turn = await story.begins()
    assert await watcher.look() == [("turn", "turn began")]
    await story.answers(claim, turn, story.asked_model())
    assert await watcher.look() == [
        ("model", "claude-sonnet-5 answered in 0.7 s"),
        ("turn", "turn answered after 0.7 s"),
        ("reply", "reply waits to be sent over telegram"),
        ("delivery", "honcho: waits to be sent"),
    ]
    await story.sends(ReplyState.DELIVERED, receipt="881")
    await story.delivers("honcho", DeliveryState.DELIVERED, receipt="r9")
    assert await watcher.look() == [
        ("reply", "reply is delivered over telegram"),
        ("delivery", "honcho: delivered"),
    ]
    assert await watcher.look() == []
    first = watcher.events[0]
    assert (first.subject, first.text, first.agent) == (message, "Where is order B-1077?", "fern")
    assert {event.turn for event in watcher.events[1:]} == {f"{turn.session}/1"}


async def test_what_happened_between_two_looks_is_told_by_its_outcome(driver):
    story = Story(driver)
    driver.policies = retain("honcho")
    watcher = await Watcher(driver).start()
    for chat in ("home", "den"):
        await driver.talk("hello", chat=chat)
    await story.delivers("honcho", DeliveryState.PARKED, reason="refused")
    await watcher.look()
    assert sorted(watcher.whats("turn")) == ["turn answered after 0 ms"] * 2 + ["turn began"] * 2
    assert watcher.whats("reply") == ["reply can be fetched"] * 2
    assert sorted(watcher.whats("delivery")) == ["honcho: parked", "honcho: waits to be sent"]
    (parked,) = [event for event in watcher.events if event.what == "honcho: parked"]
    assert (parked.mark, parked.proof.endswith("refused")) == (Mark.FAILED, True)


async def test_nothing_from_before_is_told_but_what_becomes_of_it_is(driver):
    story = Story(driver)
    driver.policies = retain("honcho")
    await story.says(channel="telegram")
    claim, turn = await story.begins()
    watcher = await Watcher(driver).start()
    assert await watcher.look() == []
    await story.answers(claim, turn)
    await story.sends(ReplyState.UNCERTAIN, reason="no answer", doubts=2)
    assert await watcher.look() == [
        ("turn", "turn answered after 0 ms"),
        ("delivery", "honcho: waits to be sent"),
        ("reply", "reply is uncertain over telegram"),
    ]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (refused, ("message", "ada in home: refused")),
        (in_an_interrupted_turn, ("turn", "turn interrupted after 2 s")),
        (waiting_for_approval, ("turn", "turn waits for a person")),
        (resumed_after_a_kill, ("resumption", "turn was taken over by another claim")),
    ],
)
async def test_what_does_not_end_well_is_told_too(driver, told, expected):
    watcher = await Watcher(driver).start()
    await told(Story(driver))
    assert expected in await watcher.look()
    assert any(event.mark is not Mark.DONE for event in watcher.events)


@pytest.mark.parametrize(("rows_max", "overlap"), [(2, 1), (500, 50)])
async def test_more_than_one_look_holds_is_told_by_the_next_ones(driver, monkeypatch, rows_max, overlap):
    monkeypatch.setattr(tail_sql, "ROWS_MAX", rows_max)
    monkeypatch.setattr(tail_sql, "OVERLAP_ROWS", overlap)
    watcher = await Watcher(driver).start()
    for n in range(7):
        await driver.talk(f"{n}", chat=f"chat{n}")
    for _ in range(10):
        await watcher.look()
    assert [event.text for event in watcher.events if event.kind == "message"] == [f"{n}" for n in range(7)]
    assert len(watcher.whats("reply")) == 7
    assert sorted(set(watcher.whats("turn"))) == ["turn answered after 0 ms", "turn began"]
    assert len(watcher.whats("turn")) == 14


async def test_a_message_whose_id_is_older_than_another_is_told_too(driver):
    watcher = await Watcher(driver).start()
    late = driver.arrival("late")
    driver.clock.advance(3_000)
    await driver.say("early")
    await watcher.look()
    await driver.accept(late)
    assert await watcher.look() == [("message", "ada in home: accepted")]
    assert [event.text for event in watcher.events] == ["early", "late"]


async def test_what_was_open_long_ago_is_told_when_it_settles(driver, monkeypatch):
    monkeypatch.setattr(tail_sql, "OVERLAP_ROWS", 0)
    story = Story(driver)
    driver.policies = retain("honcho")
    watcher = await Watcher(driver).start()
    await story.says(channel="telegram")
    claim, turn = await story.begins()
    await story.answers(claim, turn)
    await driver.talk("hello", chat="den")
    await watcher.look()
    await story.sends(ReplyState.DELIVERED, receipt="881")
    assert ("reply", "reply is delivered over telegram") in await watcher.look()
    await story.delivers("honcho", DeliveryState.DELIVERED, receipt="r9")
    assert ("delivery", "honcho: delivered") in await watcher.look()
