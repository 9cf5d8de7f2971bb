"""The promise: a session is found by the beginning of its id, and a mistyped id names the ones next to it.

Rules: R40.
"""

from holdfast.monitor import find_session_sql
from holdfast.monitor.find_session_sql import find_sessions


async def test_the_beginning_of_an_id_finds_all_that_begin_so_and_their_neighbours(driver):
    for chat in ("home", "den", "attic"):
        await driver.talk("hello", chat=chat)
    every = (await driver.db.read(find_sessions("ses_"))).found
    assert len(every) == 3
    assert (await driver.db.read(find_sessions(every[1]))).found == [every[1]]
    wrong = await driver.db.read(find_sessions(f"{every[1]}x"))
    assert (wrong.found, wrong.near) == ([], [every[0], every[1], every[2]])


async def test_a_short_beginning_lists_a_limited_number(driver, monkeypatch):
    for chat in ("home", "den", "attic"):
        await driver.talk("hello", chat=chat)
    monkeypatch.setattr(find_session_sql, "FOUND_MAX", 2)
    assert len((await driver.db.read(find_sessions("s"))).found) == 2
