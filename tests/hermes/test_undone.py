"""A turn that Hermes has undone is undone here, and no other turn is.

The rows are those of Hermes' state.db; tests/hermes_real/test_defects.py has the real one.
"""

import sqlite3

import pytest

from holdfast.hermes.service import data_of, serving
from holdfast.hermes.undone import Exchange, MessageRow, StoredTurn, exchanges_of, undone_turns
from holdfast.hermes.undone_reader import read_exchanges
from holdfast.kernel.ids import SessionId
from tests.hermes.test_service import settle
from tests.support.hermes_service import agent_of, make_home, memory_servers

SCHEMA = """
create table sessions (id text primary key, rewind_count integer default 0);
create table messages (id integer primary key, session_id text, role text, content text, timestamp real,
                       active integer default 1, compacted integer default 0);
"""


def turn(n, user, *, at=None, is_undone=False):
    return StoredTurn(n, user, f"to {user}", n * 10 if at is None else at, is_undone)


def exchange(user, at, *, is_undone=True):
    return Exchange(user, f"to {user}", at, is_undone)


def test_the_last_turns_that_are_undone_there_are_undone_here():
    turns = [turn(1, "a"), turn(2, "b"), turn(3, "c")]
    rows = [exchange("a", 5, is_undone=False), exchange("b", 15), exchange("c", 25)]
    assert undone_turns(turns, rows) == [3, 2]


def test_a_turn_that_was_kept_ends_the_search():
    turns = [turn(1, "a"), turn(2, "b")]
    assert undone_turns(turns, [exchange("a", 5), exchange("b", 15, is_undone=False)]) == []


def test_a_turn_that_is_not_found_was_kept():
    assert undone_turns([turn(1, "a")], [exchange("other words", 5)]) == []
    assert undone_turns([turn(1, "a")], [Exchange("a", "another answer", 5, is_undone=True)]) == []
    assert undone_turns([turn(1, "a")], []) == []


def test_the_same_words_said_again_are_not_undone_with_the_first():
    turns = [turn(1, "yes", is_undone=True), turn(2, "yes")]
    assert undone_turns(turns, [exchange("yes", 5)]) == [], "its own rows are not in the database yet"
    assert undone_turns(turns, [exchange("yes", 5), exchange("yes", 15, is_undone=False)]) == []
    assert undone_turns(turns, [exchange("yes", 5), exchange("yes", 15)]) == [2]


def test_words_that_were_undone_later_do_not_undo_the_same_words_said_before():
    turns = [turn(1, "yes"), turn(2, "more")]
    rows = [exchange("yes", 5, is_undone=False), exchange("more", 15), exchange("yes", 35)]
    assert undone_turns(turns, rows) == [2]


def test_an_exchange_is_undone_if_both_of_its_rows_are():
    rows = [MessageRow(True, " a ", 5, True), MessageRow(False, "", 6, True), MessageRow(False, "b", 7, False)]
    assert exchanges_of([MessageRow(False, "greeting", 1, True), *rows]) == [Exchange("a", "b", 5, is_undone=False)]


def database(home, *rows, rewinds=1):
    with sqlite3.connect(home.database) as db:
        db.executescript(SCHEMA)
        db.execute("insert into sessions values ('S', ?)", (rewinds,))
        db.executemany("insert into messages values (null, 'S', ?, ?, ?, ?, ?)", rows)
    db.close()


def said(text, *, active=1, compacted=0):
    return [("user", text, 1.0, active, compacted), ("assistant", f"to {text}", 1.5, active, compacted)]


def test_an_archived_row_is_not_undone(tmp_path):
    home = make_home(tmp_path / "home")
    database(home, *said("a", active=0, compacted=1), *said("b", active=0))
    found = [(one.user, one.at, one.is_undone) for one in read_exchanges(home.database, "S")]
    assert found == [("a", 1_000, False), ("b", 1_000, True)]


@pytest.mark.parametrize("damage", ["missing", "old", "no undo", "not a database"])
def test_a_database_that_says_nothing_undoes_nothing(tmp_path, damage):
    home = make_home(tmp_path / "home")
    if damage == "old":
        with sqlite3.connect(home.database) as db:
            db.execute("create table sessions (id text primary key)")
        db.close()
    elif damage == "no undo":
        database(home, *said("a", active=0), rewinds=0)
    elif damage == "not a database":
        home.database.write_bytes(b"nonsense" * 1_000)
    assert read_exchanges(home.database, "S") == []


async def test_undone_turns_are_taken_back_at_hindsight(tmp_path):
    async with memory_servers() as servers:
        home = make_home(tmp_path / "home", servers)
        memory = agent_of(home, "S")
        async with serving(home, data_of(home)) as service:
            for text in ("kept", "undone"):
                memory.sync_turn(text, f"to {text}", session_id="S")
            await settle(home)
            assert [sum(text in one for one in servers.at_hindsight()) for text in ("kept", "undone")] == [1, 1]
            database(home, *said("kept"), *said("undone", active=0))
            memory.on_session_switch("S", rewound=True)
            await settle(home)
            assert [sum(text in one for one in servers.at_hindsight()) for text in ("kept", "undone")] == [1, 0]
            memory.on_session_switch("S", rewound=True)
            await settle(home)
            shown = [view.undone for view in await service.runtime.history(SessionId("S")) if view.entry.turn]
            assert shown == [False, False, True, True]


async def test_an_undo_that_no_hook_told_of_is_found_before_the_next_turn(tmp_path):
    async with memory_servers() as servers:
        home = make_home(tmp_path / "home", servers)
        memory = agent_of(home, "S", platform="telegram", chat_id="7", user_id="7")
        async with serving(home, data_of(home)):
            memory.sync_turn("undone", "to undone", session_id="S")
            await settle(home)
            database(home, *said("undone", active=0))
            memory.sync_turn("next", "to next", session_id="S")
            await settle(home)
        assert [sum(text in one for one in servers.at_hindsight()) for text in ("undone", "next")] == [0, 1]


async def test_a_turn_that_is_undone_before_it_is_filed_is_taken_back_too(tmp_path):
    """The undo may also come first: Hermes queues the turn, and tells of the undo at once."""
    async with memory_servers() as servers:
        home = make_home(tmp_path / "home", servers)
        memory = agent_of(home, "S")
        memory.on_session_switch("S", rewound=True)
        for text in ("kept", "undone"):
            memory.sync_turn(text, f"to {text}", session_id="S")
        database(home, *said("kept"), *said("undone", active=0))
        async with serving(home, data_of(home)) as service:
            await settle(home)
            assert [one.turns for one in await service.runtime.sessions()] == [2]
        assert [sum(text in one for one in servers.at_hindsight()) for text in ("kept", "undone")] == [1, 0]
