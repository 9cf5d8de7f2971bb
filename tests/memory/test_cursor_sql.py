"""Every turn reaches every cursor once and whole, under the address and the person it belongs to.

Rules: D18, D22, R2, R6, R9.
"""

from dataclasses import replace

from holdfast.kernel.ids import AgentName
from holdfast.memory import cursor_sql
from holdfast.memory.cursor_sql import next_overdue, schedule_overdue
from holdfast.memory.delivery import CallerDirectory, PerAddress
from holdfast.memory.replay_sql import backfill_sessions
from holdfast.store.script import Call, run
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn_sql import commit_turn
from tests.support.driver import address_of, record, retain

UNITS = """
select stream, from_turn, through_turn, op, state from delivery
 where provider = :provider order by stream, from_seq, op"""
THREE = (retain(every_turns=3),)
EACH = (retain(),)


async def units(driver, provider="mem"):
    return await driver.rows(UNITS, provider=provider)


async def test_a_unit_is_made_when_enough_turns_are_pending(driver):
    driver.policies = THREE
    session = await driver.chat("one", "two")
    assert await units(driver) == []
    await driver.chat("three", "four")
    assert await units(driver) == [(session, 1, 3, "retain", "scheduled")]
    assert await driver.rows("select scheduled_seq, settled_seq from cursor") == [(6, 0)]


async def test_turns_that_wait_are_sent_along_when_units_become_smaller(driver):
    """The operator asks for every turn from now on: those that waited for a larger unit are not passed over."""
    driver.policies = THREE
    session = await driver.chat("one", "two")
    driver.policies = EACH
    await driver.chat("three")
    found = await units(driver)
    assert sorted({turn for _, first, last, *_ in found for turn in range(first, last + 1)}) == [1, 2, 3]
    assert {stream for stream, *_ in found} == {session}
    assert await driver.rows("select scheduled_seq, settled_seq from cursor") == [(6, 0)]


async def test_the_first_turn_that_waits_decides_how_long(driver):
    """However many follow it: a chat that never rests is remembered all the same."""
    driver.policies = (replace(retain(every_turns=10), max_wait_ms=1_000),)
    began = driver.clock.now()
    session = await driver.chat("one")
    driver.clock.advance(800)
    await driver.chat("two")
    assert await driver.db.read(next_overdue()) == began + 1_000
    driver.clock.advance(200)
    assert await driver.db.write(schedule_overdue(limit=10)) == 1
    assert await units(driver) == [(session, 1, 2, "retain", "scheduled")]
    assert await driver.db.read(next_overdue()) is None


async def test_a_cursor_that_another_transaction_put_off_is_not_scheduled_early(driver):
    """PostgreSQL may commit a turn between the search for overdue cursors and the lock on the cursor."""
    driver.policies = (replace(retain(every_turns=10), max_wait_ms=1_000),)
    await driver.chat("one")
    driver.clock.advance(1_000)
    later = driver.clock.now() + 1_000

    def scheduled():
        script = iter(cursor_sql.schedule_overdue(limit=10))
        answer = yield next(script)
        yield from run("update cursor set due_at = :later", later=later)
        while True:
            try:
                answer = yield script.send(answer)
            except StopIteration as end:
                return end.value

    assert await driver.db.write(Call("schedule_overdue", scheduled)) == 1
    assert await units(driver) == []
    assert await driver.db.read(next_overdue()) == later


async def test_new_resume_and_branch_leave_nothing_behind(driver):
    driver.policies = THREE
    first = await driver.chat("one", "two")
    await driver.command("/new")
    assert await units(driver) == [(first, 1, 2, "retain", "scheduled")]
    second = await driver.chat("three")
    await driver.command(f"/resume {first}")
    assert (second, 1, 1, "retain", "scheduled") in await units(driver)
    await driver.chat("four")
    await driver.command("/branch")
    assert (first, 3, 3, "retain", "scheduled") in await units(driver)
    assert len(await units(driver)) == 3


async def test_taking_a_session_from_an_idle_place_leaves_nothing_behind(driver):
    driver.policies = THREE
    session = await driver.chat("one", chat="phone")
    await driver.command(f"/resume {session}")
    assert await units(driver) == [(session, 1, 1, "retain", "scheduled")]


async def test_leaving_twice_schedules_once(driver):
    driver.policies = THREE
    session = await driver.chat("one")
    for _ in range(2):
        await driver.command("/new")
        await driver.command(f"/resume {session}")
    assert len(await units(driver)) == 1


async def test_a_branch_starts_at_its_fork(driver):
    driver.policies = EACH
    parent = await driver.chat("one")
    child = (await driver.command("/branch")).session
    await driver.talk("two")
    assert await units(driver) == [(parent, 1, 1, "retain", "scheduled"), (child, 2, 2, "retain", "scheduled")]


async def test_a_unit_never_spans_a_change_of_principal(driver):
    driver.policies = THREE
    for who in ("ada", "ada", "bob"):
        await driver.talk("hi", who=who)
    found = await driver.rows("select from_turn, through_turn, principal from delivery order by from_seq")
    assert found == [(1, 2, "ada"), (3, 3, "bob")]


async def test_a_unit_never_spans_a_change_of_place(driver):
    driver.policies = THREE
    for place in ("desk", "desk", "porch"):
        await driver.db.write(record_turn(record(driver.id("k"), place=place, policies=THREE)))
    found = await driver.rows("select from_turn, through_turn, place from delivery order by from_seq")
    assert found == [(1, 2, "desk"), (3, 3, "porch")]


async def test_a_unit_never_spans_a_change_of_repository(driver):
    for repo in ("/home/ada", "/home/ada", "/home/ada/app"):
        turn = replace(record(driver.id("k"), policies=THREE), where=CallerDirectory("/home/ada/app", repo))
        await driver.db.write(record_turn(turn))
    assert await driver.rows("select from_turn, through_turn from delivery order by from_seq") == [(1, 2), (3, 3)]


async def test_a_turns_place_is_the_address_it_was_said_at(driver):
    driver.policies = EACH
    await driver.talk("one", chat="phone")
    assert await driver.rows("select place from delivery") == [(address_of("phone"),)]


async def test_turns_from_before_a_provider_are_filed_by_the_directory_they_came_from(driver):
    noted = set()

    class Noting(PerAddress):
        def place(self, inputs):
            noted.add((inputs.directory, inputs.repo))
            return inputs.address

    for where in (CallerDirectory("/home/ada/app/src", "/home/ada/app"), CallerDirectory()):
        await driver.db.write(record_turn(replace(record(driver.id("k")), where=where)))
    await driver.db.write(backfill_sessions(AgentName("fern"), replace(retain(), naming=Noting()), limit=9))
    assert noted == {("/home/ada/app/src", "/home/ada/app"), ("", "")}


# --- undo ------------------------------------------------------------------------------------------


async def test_a_turn_undone_before_it_was_scheduled_is_passed_over(driver):
    driver.policies = THREE
    session = await driver.chat("one", "two")
    await driver.command("/undo")
    await driver.talk("three")
    assert await units(driver) == [], "two turns count, not three"
    await driver.command("/new")
    assert [unit[1:3] for unit in await units(driver)] == [(1, 1), (3, 3)]
    assert {unit[0] for unit in await units(driver)} == {session}


async def test_a_session_that_is_undone_whole_leaves_a_new_provider_nothing_to_settle(driver):
    driver.policies = ()
    await driver.chat("one")
    await driver.command("/undo")
    await driver.db.write(backfill_sessions(AgentName("fern"), retain(), limit=9))
    assert await units(driver) == []
    ((scheduled, settled),) = await driver.rows("select scheduled_seq, settled_seq from cursor")
    assert settled == scheduled > 0


async def test_undo_drops_a_unit_that_never_left(driver):
    driver.policies = EACH
    session = await driver.chat("one", "two")
    await driver.command("/undo")
    assert [unit[4] for unit in await units(driver)] == ["scheduled", "dropped"]
    await driver.command("/new")
    assert len(await units(driver)) == 2, f"{session} has nothing more to deliver"


async def test_undo_shortens_a_unit_that_never_left(driver):
    driver.policies = THREE
    await driver.chat("one", "two", "three")
    await driver.command("/undo 2")
    assert await driver.rows("select from_turn, through_turn, through_seq, state from delivery") == [
        (1, 1, 2, "scheduled")
    ]


async def test_undo_after_an_attempt_appends_a_retraction_behind_it(driver):
    driver.policies = THREE
    session = await driver.chat("one", "two", "three")
    await driver.write("update delivery set state = 'delivered', attempt = 1")
    await driver.command("/undo")
    assert await units(driver) == [
        (session, 1, 3, "retain", "delivered"),
        (session, 3, 3, "retract:3", "scheduled"),
    ]
    await driver.talk("four")
    await driver.command("/undo 2")
    assert (session, 2, 2, "retract:2", "scheduled") in await units(driver), "what is retracted is not retracted twice"


async def test_undo_of_inherited_turns_retracts_nothing(driver):
    driver.policies = EACH
    await driver.chat("one")
    await driver.write("update delivery set state = 'delivered', attempt = 1")
    await driver.command("/branch")
    await driver.command("/undo")
    assert [unit[3] for unit in await units(driver)] == ["retain"]


async def test_delete_cancels_what_was_not_delivered(driver):
    driver.policies = EACH
    await driver.chat("one", "two")
    await driver.write("update delivery set state = 'delivered', attempt = 1 where from_turn = 1")
    await driver.delete()
    assert [unit[4] for unit in await units(driver)] == ["delivered", "dropped"]


# --- which providers -------------------------------------------------------------------------------


async def test_a_provider_added_later_starts_at_the_present_end(driver):
    session = await driver.chat("one", "two")
    driver.policies = EACH
    await driver.talk("three")
    assert await units(driver) == [(session, 3, 3, "retain", "scheduled")]


async def test_a_provider_added_after_the_last_turn_gets_nothing_of_it_when_the_session_ends(driver):
    await driver.chat("one", "two")
    driver.policies = EACH
    await driver.command("/new")
    assert await units(driver) == []


async def test_a_provider_no_longer_configured_still_gets_the_tail(driver):
    driver.policies = THREE
    session = await driver.chat("one")
    driver.policies = ()
    await driver.command("/new")
    assert await units(driver) == [(session, 1, 1, "retain", "scheduled")]


async def test_providers_have_cursors_of_their_own(driver):
    driver.policies = (*THREE, retain("other"))
    await driver.chat("one", "two")
    assert (len(await units(driver)), len(await units(driver, "other"))) == (0, 2)


async def test_without_policies_there_are_no_rows(driver):
    await driver.chat("one")
    await driver.command("/new")
    assert await driver.rows("select 1 from cursor") == await driver.rows("select 1 from delivery") == []


async def test_only_conversations_reach_a_provider(driver):
    for purpose in ("compression", "review", "extraction", "scheduled", "subagent"):
        await driver.db.write(record_turn(record("k1", session=purpose, purpose=purpose, policies=EACH)))
    assert await driver.rows("select 1 from cursor") == await driver.rows("select 1 from delivery") == []


async def test_a_commit_repeated_schedules_once(driver):
    driver.policies = EACH
    await driver.say("one")
    claim = await driver.claim()
    turn, commit = await driver.open(claim), driver.commit()
    for _ in range(2):
        await driver.db.write(commit_turn(claim, turn, commit))
    assert len(await units(driver)) == 1
