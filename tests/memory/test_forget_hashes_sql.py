"""The promise: no hash of a forgotten text is left, in no row and in no id; a message that comes again is still
known."""

import hashlib
from dataclasses import replace

import pytest

from holdfast.inbox.message import Conflict, Duplicate
from holdfast.kernel.ids import Principal, SessionId
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.memory.notes import Applied, Change, MemoryBatch, MemoryVerb, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.memory.notes_text import digest
from holdfast.sessions.history_sql import find_unanswered
from holdfast.store.upkeep_sql import prune_messages
from tests.memory.test_forget_sql import CANARY, EACH, FERN, carry, carry_all, person, whole
from tests.support.driver import SECRET


async def hashes(driver):
    return {bytes(one) for (one,) in await driver.rows("select body_hash from inbound where principal = 'ada'")}


async def test_the_hash_of_a_message_goes_and_it_is_known_by_its_id_alone(driver):
    arrival = driver.arrival(CANARY, event="e1")
    await driver.accept(arrival)
    assert isinstance(await driver.accept(driver.arrival("other", event="e1")), Conflict)
    await driver.db.write(begin_forgetting(person()))
    assert await hashes(driver) == {b""}
    again = await driver.accept(driver.arrival("other", event="e1"))
    assert isinstance(again, Duplicate)
    assert again.message == arrival.message


async def test_others_messages_keep_theirs_and_conflicts_are_told(driver):
    await driver.accept(driver.arrival("x", who="bob", event="e1"))
    await driver.db.write(begin_forgetting(person()))
    assert isinstance(await driver.accept(driver.arrival("y", who="bob", event="e1")), Conflict)


async def test_the_hash_of_a_pruned_message_goes_too_and_others_keep_theirs(driver):
    for who in ("ada", "bob"):
        await driver.accept(driver.arrival("/status", who=who, event=f"e-{who}"))
    driver.clock.advance(10_000)
    assert await driver.db.write(prune_messages(older_than_ms=1, limit=10, secret=SECRET)) == 2
    await driver.db.write(begin_forgetting(person()))
    kept = dict(await driver.rows("select principal, length(body_hash) from tombstone"))
    assert kept == {"ada": 0, "bob": 16}
    assert isinstance(await driver.accept(driver.arrival("y", event="e-ada")), Duplicate)
    assert isinstance(await driver.accept(driver.arrival("y", who="bob", event="e-bob")), Conflict)


async def test_a_session_that_is_forgotten_leaves_none_either(driver):
    turn = await driver.talk(CANARY)
    await driver.db.write(begin_forgetting(whole(SessionId(turn.session))))
    assert await hashes(driver) == {b""}


async def test_an_id_that_was_made_of_a_text_is_another_one_afterwards(driver):
    """Earlier releases named a message of OpenAI's API after the hash of its body."""
    made = hashlib.sha256(CANARY.encode()).hexdigest()[:32]
    await driver.say(CANARY, event=f"body.{made}.msg_1", channel="openai")
    mine = await driver.say("x", event=f"body.{made}.msg_2", channel="http")
    await driver.db.write(begin_forgetting(person()))
    found = await driver.rows("select message, event_id from inbound where event_id not like 'body.%'")
    assert found == [(found[0][0], f"forgotten.{found[0][0]}")]
    assert mine not in {row[0] for row in found}, "an id that a client chose is no hash of ours"


async def test_what_makes_a_request_the_same_goes_when_it_is_answered_or_forgotten(driver):
    await driver.accept(replace(driver.arrival("a"), request="r1"))
    await driver.accept(replace(driver.arrival("b"), request="r2"))
    assert await driver.db.read(find_unanswered("", "r1")) is not None
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    assert await driver.db.read(find_unanswered("", "r1")) is None
    assert await driver.rows("select request from inbound order by seq") == [(None,), ("r2",)]
    await driver.db.write(begin_forgetting(person()))
    assert await driver.rows("select request from inbound order by seq") == [(None,), (None,)]


async def test_the_hash_of_what_a_provider_was_sent_lasts_as_long_as_its_attempts(driver):
    driver.policies = EACH
    await driver.talk(CANARY)
    await driver.talk("Rex", who="bob")
    await carry(driver)
    assert await driver.rows("select count(*) from delivery where payload_hash is not null") == [(0,)]
    await driver.write("update delivery set payload_hash = 'of an earlier release'")
    await driver.db.write(begin_forgetting(person()))
    kept = await driver.rows("select principal from delivery where payload_hash is not null and op = 'retain'")
    assert kept == [("bob",)]
    await carry_all(driver)


@pytest.mark.parametrize("kind", ["import:hermes:memory", "edit:memory"])
async def test_the_origin_of_a_note_that_is_made_of_its_text_is_another_one_afterwards(driver, kind):
    change = Change(verb=MemoryVerb.ADD, target=Target.MEMORY, text=CANARY)
    batch = MemoryBatch(
        agent=FERN,
        subject="ada",
        origin=f"{kind}:{digest(CANARY)}",
        changes=(change,),
        by=kind.partition(":")[0],
        principal=Principal("ada"),
    )
    assert isinstance(await driver.db.write(apply_memory(batch)), Applied)
    await driver.db.write(begin_forgetting(person()))
    assert await driver.rows("select origin from memory_op") == [("forgotten:1",)]
    assert await driver.rows("select origin from memory_batch") == [("forgotten:1",)]


@pytest.mark.parametrize("command", ["/delete", "/undo"])
async def test_no_hash_is_left_of_what_a_command_takes_back_between_two_attempts(driver, command):
    driver.policies = EACH
    await driver.talk(CANARY)
    await driver.write("update delivery set payload_hash = 'of an attempt that failed'")
    await (driver.delete() if command == "/delete" else driver.command(command))
    found = await driver.rows("select state, payload_hash from delivery where op = 'retain'")
    assert found == [("dropped", None)]
