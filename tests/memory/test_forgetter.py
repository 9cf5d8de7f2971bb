"""The real dispatcher completes a forgetting through outages and crashes. It is pending until the last provider has
erased, and other people's words stay.
"""

import pytest

from holdfast.kernel.ids import AgentName, DeliveryId, ForgetId, Principal
from holdfast.kernel.notifier import Topic
from holdfast.memory.delivery import Op, PerAddress
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.memory.forgetter import scrub_forgotten
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from tests.support.memory_provider import Service
from tests.support.memory_world import say, shelf

LONG_S = 600.0
CANARY = "marmalade"


async def tell(runtime):
    await say(runtime, f"my cat is called {CANARY}")
    await runtime.ask("c", "my dog is called Rex", sender="bob")


def held(world):
    return [body for (body,) in world.rows("select body from entry") if CANARY.encode() in body]


def test_a_provider_that_is_down_keeps_it_pending_until_it_is_back(world):
    service, other = Service(), Service()

    async def scenario():
        runtime = await world.open(
            shelf=shelf(service, naming=PerAddress()), attic=shelf(other, naming=PerAddress(), name="attic")
        )
        await tell(runtime)
        await world.pass_time(5)
        service.away = "connection refused"
        asked = await runtime.forget(person="c", agent="main")
        await world.pass_time(LONG_S)
        waiting = await runtime.forget_status(asked.id)
        by_provider = {part.provider: part for part in waiting.parts}
        assert not waiting.done
        assert waiting.scrubbed_at is not None
        assert by_provider["attic"].done
        assert not by_provider["shelf"].done
        assert by_provider["shelf"].reason == "connection refused"
        assert by_provider["shelf"].attempt > 1
        assert by_provider["shelf"].due_at > asked.requested_at
        service.away = ""
        await world.pass_time(LONG_S)
        done = await runtime.forget_status(asked.id)
        await runtime.close()
        return done

    done = world.run(scenario())
    assert done.done
    assert all(part.receipt for part in done.parts)
    for each in (service, other):
        told = [(parcel.op, parcel.principal) for parcel in each.kept]
        assert told == [(Op.RETAIN, "c"), (Op.RETAIN, "bob"), (Op.ERASE, "c")]
        erasure = each.kept[-1].erasure
        assert erasure is not None
        assert erasure.deliveries == (each.kept[0].id,)
    assert held(world) == []


def test_the_next_process_goes_on_where_one_died(world):
    service = Service()

    async def first():
        runtime = await world.open(shelf=shelf(service))
        await tell(runtime)
        await world.pass_time(5)
        return await runtime.forget(person="c")

    async def second(id):
        runtime = await world.open(shelf=shelf(service))
        await world.pass_time(60)
        found = await runtime.forget_status(id)
        again = await runtime.ask("c", "what is my cat called?")
        await runtime.close()
        return found, again

    asked = world.run(first())
    assert not asked.done
    world.kill()
    found, again = world.run(second(asked.id))
    assert found.done
    assert sum(parcel.op is Op.ERASE for parcel in service.kept) == 1
    assert CANARY not in again
    assert CANARY not in world.contexts()[-1]
    assert "Rex" in world.contexts()[-1]


@pytest.mark.parametrize("after", ["forget", "scrub", "settle"])
def test_death_between_any_two_steps_costs_nothing(world, after):
    service = Service()

    async def first():
        runtime = await world.open(shelf=shelf(service))
        await tell(runtime)
        await world.pass_time(5)
        service.away = "" if after == "settle" else "not yet"
        asked = await runtime.db.write(begin_forgetting(ForgetRequest(id=ForgetId("forget_1"), person=Principal("c"))))
        if after != "forget":
            await scrub_forgotten(runtime.db)
        if after == "settle":
            runtime._notifier.wake(Topic.DELIVERY)
            await world.pass_time(30)
        return asked

    async def second(id):
        service.away = ""
        runtime = await world.open(shelf=shelf(service))
        await world.pass_time(120)
        found = await runtime.forget_status(id)
        await runtime.close()
        return found

    asked = world.run(first())
    world.kill()
    assert world.run(second(asked.id)).done
    assert sum(parcel.op is Op.ERASE for parcel in service.kept) == 1
    assert held(world) == []


def test_a_provider_that_cannot_erase_keeps_it_open_and_says_what_to_do(world):
    service = Service()

    async def scenario():
        runtime = await world.open(shelf=shelf(service, erases=False))
        await tell(runtime)
        await world.pass_time(5)
        asked = await runtime.forget(person="c")
        await world.pass_time(LONG_S)
        found = await runtime.forget_status(asked.id)
        (parked,) = await runtime.deliveries(state="parked")
        await runtime.replay(DeliveryId(parked.id))
        await world.pass_time(LONG_S)
        replayed = await runtime.forget_status(asked.id)
        await runtime.close()
        return found, replayed

    found, replayed = world.run(scenario())
    assert not found.done
    assert [part.state.value for part in found.parts] == ["parked"]
    assert "manually" in found.parts[0].reason
    assert replayed.done, "somebody said that it was done there"


def test_what_recall_brought_back_meanwhile_is_swept(world):
    """The service recalls until it erases, and its lookups are journaled."""
    service = Service()

    async def scenario():
        runtime = await world.open(shelf=shelf(service, recalls=True))
        await tell(runtime)
        await world.pass_time(5)
        service.away = "not yet"
        asked = await runtime.forget(person="c")
        service.away = ""
        await runtime.ask("c", "and now?", sender="bob")
        kept = world.rows("select count(*) from entry where kind = 'recall' and length(body) > 0")
        await world.pass_time(120)
        left = world.rows("select count(*) from entry where kind = 'recall' and length(body) > 0")
        found = await runtime.forget_status(asked.id)
        await runtime.close()
        return kept, left, found

    kept, left, found = world.run(scenario())
    assert (kept, left) == ([(1,)], [(0,)])
    assert found.done


def test_notes_go_from_what_running_sessions_are_told(world):
    async def scenario():
        runtime = await world.open()
        change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=f"the cat is {CANARY}")
        batch = MemoryBatch(
            agent=AgentName("main"), subject="bob", origin="o1", changes=(change,), principal=Principal("c")
        )
        await runtime.apply_memory(batch)
        await runtime.ask("c", "hello", sender="bob")
        before = len(world.model.requests)
        await runtime.forget(person="c")
        await runtime.ask("c", "hello again", sender="bob")
        await runtime.close()
        return before

    before = world.run(scenario())
    assert CANARY in world.contexts()[0]
    assert all(CANARY not in shown for shown in world.contexts(before))
