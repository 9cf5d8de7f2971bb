"""The doctor on homes that real releases of Hermes left: it finds exactly their damage, and repairs it once."""

import sqlite3

import pytest

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.finding import Severity
from holdfast.hermes.doctor.repair import preview, repair_in_place, repair_to
from tests.hermes.restored_homes import HOMES, NAMES, NOW, expected, restore_home
from tests.hermes.test_doctor import digests
from tests.hermes.test_doctor_repair import schema_of

DAMAGED = [name for name in NAMES if expected(name)["findings"]]


@pytest.fixture
def restore(tmp_path):
    return lambda name: restore_home(name, tmp_path / "home")


def found(home):
    return [
        {"kind": one.kind.code, "certainty": one.certainty.value, "sessions": list(one.sessions)}
        for one in examine(home, NOW).findings
        if one.severity is not Severity.INFO
    ]


def user_words(home):
    with sqlite3.connect(home / "state.db") as db:
        return {row[0].strip() for row in db.execute("select content from messages where role = 'user'")}


def test_healthy_and_damaged_homes_of_each_release_are_here():
    assert {expected(name)["release"] for name in DAMAGED} == {expected(name)["release"] for name in NAMES}
    assert {expected(name)["release"] for name in NAMES if name not in DAMAGED} >= {"0.14.0", "0.19.0"}


@pytest.mark.parametrize("name", NAMES)
def test_exactly_the_damage_of_a_real_home_is_found(name, restore):
    home = restore(name)
    before = digests(home)
    assert found(home) == expected(name)["findings"]
    assert digests(home) == before


@pytest.mark.parametrize("name", DAMAGED)
def test_a_real_home_is_repaired_once_and_keeps_its_schema_and_words(name, restore, tmp_path):
    home, copy = restore(name), tmp_path / "copy"
    result = repair_to(home, copy, NOW)
    if not any(one.is_repaired for one in examine(home, NOW).findings):
        assert result.diff == []
        return
    assert found(copy) == []
    assert schema_of(copy / "state.db") == schema_of(home / "state.db")
    assert user_words(copy) >= user_words(home)
    with sqlite3.connect(copy / "state.db") as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert db.execute("pragma foreign_key_check").fetchall() == []
    again = preview(copy, NOW)
    assert (again.applied, again.diff) == ([], [])
    before = digests(copy)
    repair_in_place(copy, tmp_path / "unused", NOW)
    assert digests(copy)["state.db"][0] == before["state.db"][0]
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize("path", [path for path in HOMES.rglob("*") if path.is_file()], ids=lambda path: path.name)
def test_the_files_name_no_place_of_the_machine_that_made_them(path):
    text = path.read_text(encoding="utf-8").replace("/home/ada/.hermes", "")
    assert not any(part in text for part in ("/tmp/", "/Users/", "/home/", f"/{'root'}/"))
