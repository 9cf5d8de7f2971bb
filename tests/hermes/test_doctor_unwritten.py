"""A turn that Hermes 0.14 answered and never stored is found by transcript and log, and written by a repair.

What the user took back looks the same in the files, and is left alone.
"""

import sqlite3

import pytest

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.finding import Certainty, Severity
from holdfast.hermes.doctor.repair import preview, repair_to
from tests.hermes.test_doctor import CHAT, NOW, wrong
from tests.support.hermes_home import HermesHome

SESSION = "20260202_020000_aaaaaaaa"
TURN = "2026-02-02 02:5{n}:00,100 INFO [{s}] run_agent: conversation turn: session={s} model=m platform=t"
ENDED = "2026-02-02 02:5{n}:05,100 INFO [{s}] run_agent: Turn ended: reason=text model=m response_len=81 session={s}"


@pytest.fixture
def home(tmp_path):
    """Two stored turns, and a third one that only the transcript has."""
    made = HermesHome(tmp_path / "home", "0.14.0")
    made.session(SESSION, CHAT)
    made.say(SESSION, "first", "one")
    made.say(SESSION, "second", "two")
    third = [{"role": "user", "content": "the third one"}, {"role": "assistant", "content": "three"}]
    made.transcript(SESSION, [*made._active(SESSION), *third])
    made.route(CHAT, SESSION)
    return made


def log(home, *, ends):
    for n, said in enumerate(("first", "second", "the third one")):
        home.log(f"{TURN} msg={said!r}".format(n=n, s=SESSION))
        home.log(*[ENDED.format(n=n, s=SESSION)] * (n in ends))


def test_a_turn_that_was_cut_off_before_it_was_stored(home, tmp_path):
    log(home, ends={0, 1})
    assert wrong(home.folder) == [("turn_not_stored", (SESSION,))]
    home.close()
    result = repair_to(home.folder, tmp_path / "copy", NOW)
    assert [one.kind.code for one in result.applied] == ["turn_not_stored"]
    assert wrong(tmp_path / "copy") == []
    with sqlite3.connect(tmp_path / "copy" / "state.db") as db:
        rows = [row[0] for row in db.execute("select content from messages order by id")]
    assert rows == ["first", "one", "second", "two", "the third one", "three"]
    assert preview(tmp_path / "copy", NOW).diff == []


def test_a_turn_that_ended_was_taken_back_and_is_no_finding(home):
    log(home, ends={0, 1, 2})
    assert examine(home.folder, NOW).is_silent


def test_a_log_without_the_end_of_any_turn_allows_a_suspicion_only(home):
    log(home, ends=set())
    (found,) = [one for one in examine(home.folder, NOW).findings if one.kind.code == "turn_not_stored"]
    assert (found.certainty, found.severity, found.is_repaired) == (Certainty.SUSPECTED, Severity.INFO, False)


def test_without_a_log_nothing_is_said_of_the_turn(home):
    assert examine(home.folder, NOW).is_silent
