"""A claim is asked for if work may be due, keeps its name until it is answered, and is given back when it fails."""

import asyncio
from itertools import count

import pytest

from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.loop import Batch, ClaimLoop
from holdfast.kernel.machine import AsyncTasks
from holdfast.kernel.notifier import Notifier, Topic
from holdfast.testing import SeededEntropy


class Porter(ClaimLoop[str, str]):
    """Claims from lists that the test fills, by group; at most two of a group at once."""

    name = "porter"
    topic = Topic.DELIVERY

    def __init__(self):
        self.notifier, numbers = Notifier(), count(1)
        super().__init__(AsyncTasks(), SeededEntropy(1), self.notifier, lambda prefix: f"{prefix}_{next(numbers)}")
        self.waiting: dict[str, list[str]] = {"a": [], "b": []}
        self.asked, self.served, self.given_back = [], [], []
        self.looks, self.answers_lost = 0, 0
        self.held = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.counter = asyncio.Event()  # where a claim is made
        self.counter.set()
        self.asking = asyncio.Event()
        self.fails = set()

    async def look(self):
        self.looks += 1
        return [group for group, work in self.waiting.items() if work]

    def groups(self, key):
        return (key,)

    def room(self, group):
        return 2 - self.running.count(group)

    async def claim(self, group, name, *, repeated):
        self.asked.append((group, name, repeated))
        if name not in self.held:
            room = self.room(group)
            self.held[name], self.waiting[group] = self.waiting[group][:room], self.waiting[group][room:]
        self.asking.set()
        await self.counter.wait()
        if self.answers_lost:
            self.answers_lost -= 1
            raise StoreUnavailable("the answer is lost")
        return Batch(self.held.pop(name), more=bool(self.waiting[group]))

    async def serve(self, group, claim):
        await self.gate.wait()
        if claim in self.fails:
            raise LookupError(claim)
        self.served.append((group, claim))

    async def give_back(self, group, claim, error):
        self.given_back.append((group, claim, type(error).__name__))

    async def work(self):
        while await self.step() or len(self.running):
            await self.running.fewer_than(1)


@pytest.fixture
async def porter():
    made = Porter()
    await made.step()  # before the first look anything may be due
    made.looks, made.asked = 0, []
    return made


async def test_without_a_wake_up_nothing_is_asked(porter):
    porter.waiting["a"].append("letter")
    assert not await porter.step()
    assert (porter.looks, porter.asked) == (0, [])


async def test_a_wake_up_with_a_key_claims_its_group_without_a_look(porter):
    porter.waiting["a"].append("letter")
    porter.notifier.wake(Topic.DELIVERY, "a")
    await porter.work()
    assert (porter.looks, [group for group, *_ in porter.asked]) == (0, ["a"])
    assert porter.served == [("a", "letter")]


async def test_a_wake_up_without_a_key_looks_for_all_groups(porter):
    porter.waiting["b"].append("parcel")
    porter.notifier.wake(Topic.DELIVERY)
    await porter.work()
    assert (porter.looks, porter.served) == (1, [("b", "parcel")])


async def test_what_finds_no_room_is_claimed_once_there_is_some(porter):
    porter.waiting["a"] += ["one", "two", "three"]
    porter.gate.clear()
    porter.notifier.wake(Topic.DELIVERY, "a")
    assert await porter.step()
    assert not await porter.step()
    assert len(porter.running) == 2
    porter.gate.set()
    await porter.running.fewer_than(1)
    await porter.work()
    assert [claim for _, claim in porter.served] == ["one", "two", "three"]
    assert len(porter.asked) == 2


async def test_a_request_whose_answer_is_lost_is_repeated_under_its_name_and_delays_no_other_group(porter):
    porter.waiting["a"].append("letter")
    porter.waiting["b"].append("parcel")
    porter.notifier.wake(Topic.DELIVERY, "a", "b")
    porter.answers_lost = 1
    with pytest.raises(StoreUnavailable):
        await porter.step()
    await porter.work()
    assert sorted(porter.served) == [("a", "letter"), ("b", "parcel")]
    ((_, name, first), (other, _, _), (_, again, repeated)) = porter.asked
    assert (name, first, other, repeated) == (again, False, "b", True)


async def test_a_look_that_failed_is_repeated(porter):
    look, porter.look = porter.look, None
    porter.notifier.wake(Topic.DELIVERY)
    with pytest.raises(TypeError):
        await porter.step()
    porter.look = look
    await porter.step()
    assert porter.looks == 1


async def test_a_claim_that_fails_is_given_back_and_the_others_go_on(porter):
    porter.waiting["a"] += ["bad", "good"]
    porter.fails.add("bad")
    porter.notifier.wake(Topic.DELIVERY, "a")
    await porter.work()
    assert porter.given_back == [("a", "bad", "LookupError")]
    assert porter.served == [("a", "good")]


async def test_a_loop_that_stops_claims_no_more(porter):
    porter.waiting["a"].append("letter")
    porter.notifier.wake(Topic.DELIVERY, "a")
    porter.stopping = True
    assert not await porter.step()
    assert porter.asked == []


async def claiming(porter):
    """A step whose claim is asked for and not answered yet."""
    porter.waiting["a"].append("letter")
    porter.notifier.wake(Topic.DELIVERY, "a")
    porter.counter.clear()
    stepping = asyncio.create_task(porter.step())
    await porter.asking.wait()
    return stepping


async def test_a_loop_that_stops_serves_the_claim_that_is_being_made(porter):
    stepping = await claiming(porter)
    porter.stopping = True
    draining = asyncio.create_task(porter.drain(60_000))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not draining.done(), "what is claimed now would be left for somebody to ask about"
    porter.counter.set()
    await asyncio.gather(stepping, draining)
    assert porter.served == [("a", "letter")]


async def test_a_claim_that_is_not_answered_is_waited_for_no_longer_than_the_grace_period(porter):
    stepping = await claiming(porter)
    await porter.drain(0)
    stepping.cancel()
    assert porter.served == []


async def test_the_end_of_a_claim_ends_the_rest_without_a_question(porter):
    porter.waiting["a"].append("letter")
    porter.notifier.wake(Topic.DELIVERY, "a")
    await porter.step()
    await porter.rest()
    await porter.rest()  # woken by the end of the claim
    asked = len(porter.asked)
    assert not await porter.step()
    assert (porter.looks, len(porter.asked)) == (0, asked)
