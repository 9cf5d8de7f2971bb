"""A writer without a mailbox adds whole turns, each once, and never inside another writer's turn.

Rules: D8.
"""

import asyncio
from dataclasses import replace

import pytest

from holdfast.kernel.errors import InvalidInput, SessionLive, SessionMoved, SessionNotFound
from holdfast.kernel.ids import SessionId
from holdfast.memory.delivery import CallerDirectory
from holdfast.sessions.history_sql import read_session
from holdfast.sessions.session import SessionState
from holdfast.turns.context_sql import read_context
from holdfast.turns.record_sql import record_turn, undo_recorded
from tests.support.counting import CountingDatabase
from tests.support.driver import record, retain

EVERYTHING = "select session, seq, turn from entry order by session, seq"


async def test_a_recorded_turn_is_in_the_journal(driver):
    done = await driver.db.write(record_turn(record("k1")))
    assert (done.turn, done.last_seq, done.repeated) == (1, 2, False)
    assert await driver.texts(done.session) == ["hello", "re: hello"]
    found = await driver.db.read(read_session(done.session))
    assert (found.committed_seq, found.mailbox, found.live) == (2, None, False)


async def test_where_a_recorded_turn_was_said_is_kept_with_it(driver):
    where = CallerDirectory("/home/ada/app", "/home/ada")
    await driver.db.write(record_turn(replace(record("k1"), where=where)))
    await driver.db.write(record_turn(record("k2")))
    found = await driver.rows("select directory, repo from turn order by n")
    assert found == [(where.directory, where.repo), (None, None)]


async def test_the_same_key_is_recorded_once(driver):
    first = await driver.db.write(record_turn(record("k1")))
    await driver.db.write(record_turn(record("k2", text="more")))
    again = await driver.db.write(record_turn(record("k1")))
    assert (again.turn, again.last_seq, again.repeated) == (first.turn, first.last_seq, True)
    assert len(await driver.texts(first.session)) == 4


async def test_an_expected_sequence_is_compared(driver):
    await driver.db.write(record_turn(record("k1", expected_seq=0)))
    with pytest.raises(SessionMoved):
        await driver.db.write(record_turn(record("k2", expected_seq=0)))
    assert (await driver.db.write(record_turn(record("k2", expected_seq=2)))).turn == 2


@pytest.mark.parametrize("mailbox", ["idle", "with mail", "claimed", "in a turn"])
async def test_a_live_session_is_not_touched_whatever_its_mailbox_does(driver, mailbox):
    session = await driver.chat("hello")
    if mailbox != "idle":
        await driver.say("more")
    claim = await driver.claim() if mailbox in {"claimed", "in a turn"} else None
    turn = await driver.open(claim) if claim and mailbox == "in a turn" else None
    before = await driver.rows(EVERYTHING)
    with pytest.raises(SessionLive, match=f"{session} is live in mailbox box_"):
        await driver.db.write(record_turn(record("k1", session=session)))
    with pytest.raises(SessionLive):
        await driver.db.write(record_turn(record("k1", session=session, expected_seq=2)))
    assert await driver.rows(EVERYTHING) == before
    if turn is not None:
        await driver.answer(claim, turn)
        assert (await driver.db.read(read_session(session))).turns == 2


async def test_a_turn_recorded_before_its_session_went_live_is_repeated_and_no_other_is_added(driver):
    session = await driver.chat("hello")
    await driver.command("/new")
    first = await driver.db.write(record_turn(record("k1", session=session)))
    await driver.command(f"/resume {session}")
    again = await driver.db.write(record_turn(record("k1", session=session)))
    assert (again.turn, again.repeated) == (first.turn, True)
    with pytest.raises(SessionLive):
        await driver.db.write(record_turn(record("k2", session=session)))


async def test_a_session_that_was_left_can_be_recorded_to_and_resumed(driver):
    session = await driver.chat("hello")
    await driver.command("/new")
    await driver.db.write(record_turn(record("k1", session=session, text="meanwhile")))
    await driver.command(f"/resume {session}")
    assert (await driver.texts(session))[-2] == "meanwhile"


async def test_another_agents_session_is_not_found(driver):
    await driver.db.write(record_turn(record("k1")))
    with pytest.raises(SessionNotFound):
        await driver.db.write(record_turn(record("k2", agent="moss")))


async def test_a_deleted_session_is_not_written_to(driver):
    session = await driver.chat("hello")
    await driver.delete()
    with pytest.raises(SessionNotFound):
        await driver.db.write(record_turn(record("k1", session=session)))


@pytest.mark.parametrize(
    "wrong",
    [{"key": "a\0b"}, {"key": ""}, {"session": "a\nb"}, {"who": ""}, {"purpose": "fun"}, {"agent": "a b"}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_what_cannot_be_kept_is_refused_and_nothing_is_written(driver, wrong):
    with pytest.raises(InvalidInput):
        await driver.db.write(record_turn(record(**{"key": "k1"} | wrong)))
    assert await driver.rows("select 1 from session") == []


async def test_concurrent_recorders_of_one_session_neither_interleave_nor_lose(driver):
    keys = [f"k{n}" for n in range(12)]
    done = await asyncio.gather(*(driver.db.write(record_turn(record(key, text=key))) for key in keys + keys))
    assert sorted({one.turn for one in done}) == list(range(1, 13))
    assert sum(not one.repeated for one in done) == 12
    texts = await driver.texts(done[0].session)
    assert [f"re: {text}" for text in texts[::2]] == texts[1::2]
    assert sorted(texts[::2]) == sorted(keys)


async def test_of_concurrent_recorders_that_expect_the_same_sequence_one_wins(driver):
    racing = (driver.db.write(record_turn(record(f"k{n}", expected_seq=0))) for n in range(8))
    outcomes = await asyncio.gather(*racing, return_exceptions=True)
    assert sum(isinstance(outcome, SessionMoved) for outcome in outcomes) == 7
    assert (await driver.db.read(read_session(SessionId("hermes-1")))).turns == 1


# --- the context that comes with a recorded turn -----------------------------------------------------


async def recorded_and_read(driver, key, known, **how):
    """Record a turn; the context that came with it is the one that a reader without a cache gets afterwards."""
    made = record(key, **how)
    done = await driver.db.write(record_turn(made, reads=True, known=known))
    assert done.context == await driver.db.read(read_context(made.session))
    return done.context


async def test_the_context_after_a_recorded_turn_is_the_one_that_a_reader_gets(driver):
    first = await recorded_and_read(driver, "k1", None)
    second = await recorded_and_read(driver, "k2", first, text="more")
    assert [entry.text for entry in second.entries] == ["hello", "re: hello", "more", "re: more"]
    assert (await driver.db.write(record_turn(record("k3")))).context is None


async def test_a_cached_context_grows_by_the_recorded_turn_without_reading_entries(driver):
    known = await recorded_and_read(driver, "k1", None)
    counting = CountingDatabase(driver.db)
    with counting.measured() as counted:
        done = await counting.write(record_turn(record("k2"), reads=True, known=known))
    assert done.context is not None
    assert (done.context.last_seq, counted.statement_count, counted.round_trips) == (4, 5, 2), counted
    assert not [sql for sql in counted.sql if "from entry" in sql]


async def test_a_cached_context_that_another_writer_left_behind_is_not_extended(driver):
    known = await recorded_and_read(driver, "k1", None)
    await driver.db.write(record_turn(record("k2", text="from elsewhere")))
    found = await recorded_and_read(driver, "k3", known, text="last")
    assert [entry.text for entry in found.entries][2::2] == ["from elsewhere", "last"]


async def test_the_context_of_a_repeated_turn_is_the_newest_one(driver):
    known = await recorded_and_read(driver, "k1", None)
    await driver.db.write(record_turn(record("k2")))
    again = await recorded_and_read(driver, "k1", known)
    assert again.last_seq == 4


async def test_a_second_speaker_shows_in_the_context_of_their_first_turn(driver):
    known = await recorded_and_read(driver, "k1", None)
    assert not known.several
    assert (await recorded_and_read(driver, "k2", known, who="bob")).several


async def test_a_turn_undone_since_the_context_was_cached_is_not_in_the_next_one(driver):
    session = await driver.chat("hello")
    await driver.chat("a mistake")
    known = await driver.db.read(read_context(session))
    await driver.command("/undo")
    await driver.command("/new")
    found = await recorded_and_read(driver, "k1", known, session=session, text="meanwhile")
    assert [entry.text for entry in found.entries][-2:] == ["meanwhile", "re: meanwhile"]
    assert "a mistake" not in [entry.text for entry in found.entries]


async def test_a_withdrawal_makes_the_cached_context_unusable(driver):
    known = await recorded_and_read(driver, "k1", None)
    await driver.write("insert into withdrawal (agent, n) values ('fern', 1)")
    await driver.write("update entry set body = :body where seq = 1", body=b'{"v":1,"text":"","principal":"ada"}')
    found = await recorded_and_read(driver, "k2", known)
    assert found.entries[0].text == "", "the blanked words are not shown from the cache"


async def test_an_ended_session_goes_on_with_the_recorded_turn(driver):
    session = await driver.chat("hello")
    known = await driver.db.read(read_context(session))
    await driver.command("/new")
    await recorded_and_read(driver, "k1", known, session=session)
    assert (await driver.db.read(read_session(session))).state is SessionState.OPEN


# --- undo --------------------------------------------------------------------------------------------


async def test_the_last_recorded_turns_are_undone_once(driver):
    for n in range(1, 4):
        done = await driver.db.write(record_turn(record(f"k{n}", text=f"turn {n}")))
    assert await driver.db.write(undo_recorded(done.session, [2, 3], by="hermes")) == 2
    assert await driver.db.write(undo_recorded(done.session, [2, 3], by="hermes")) == 0
    assert await driver.texts(done.session) == ["turn 1", "re: turn 1"]


@pytest.mark.parametrize("turns", [[1], [1, 2], [7], []])
async def test_turns_that_are_not_the_last_ones_stay(driver, turns):
    for n in range(1, 4):
        done = await driver.db.write(record_turn(record(f"k{n}", text=f"turn {n}")))
    assert await driver.db.write(undo_recorded(done.session, turns, by="hermes")) == 0
    assert len(await driver.texts(done.session)) == 6


async def test_a_recorded_turn_that_is_undone_before_it_was_sent_is_not_delivered(driver):
    driver.policies = (retain(),)
    done = await driver.db.write(record_turn(replace(record("k1"), policies=driver.policies)))
    assert await driver.db.write(undo_recorded(done.session, [1], by="hermes")) == 1
    assert await driver.rows("select state from delivery") == [("dropped",)]


async def test_nothing_is_undone_in_a_session_that_a_chat_goes_on_with(driver):
    session = await driver.chat("hello")
    assert await driver.db.write(undo_recorded(session, [1], by="hermes")) == 0
    assert await driver.texts(session) == ["hello", "re: hello"]


async def test_nothing_is_undone_in_an_unknown_session(driver):
    assert await driver.db.write(undo_recorded(SessionId("ses_none"), [1], by="hermes")) == 0
