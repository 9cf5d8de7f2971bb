"""The promise: a command that looks says what is wrong with a store and what to do, and changes nothing.

A store may be not there yet, newer, damaged, locked by another program, or a file where a folder belongs.
"""

import apsw
import pytest

from holdfast.store.sqlite import connection
from tests.cli.test_cli import here, refused

LOOKS = [["status"], ["tail"], ["agents"], ["messages"], ["trace", "msg_1"], ["sessions"], ["deliveries"]]


@pytest.mark.parametrize("words", LOOKS, ids="-".join)
def test_where_nothing_is_yet_the_first_step_is_named(tmp_path, words):
    for folder in (tmp_path, tmp_path / "nothing"):
        done = here(*words, "--data", folder)
        refused(done, "store_path_invalid")
        assert "Nothing is here yet: run `holdfast up`" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", LOOKS, ids="-".join)
def test_a_newer_store_is_refused_and_kept(tmp_path, words):
    here("send", "hello", "--data", tmp_path)
    db = apsw.Connection(str(tmp_path / "holdfast.db"))
    db.execute("pragma user_version=99")
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()
    before = (tmp_path / "holdfast.db").read_bytes()
    refused(here(*words, "--data", tmp_path), "store_newer")
    assert (tmp_path / "holdfast.db").read_bytes() == before


@pytest.mark.parametrize("words", LOOKS, ids="-".join)
def test_a_damaged_store_is_refused_and_kept(tmp_path, words):
    (tmp_path / "holdfast.db").write_bytes(b"this was a database once" * 1_000)
    before = (tmp_path / "holdfast.db").read_bytes()
    refused(here(*words, "--data", tmp_path), "store_corrupt")
    assert (tmp_path / "holdfast.db").read_bytes() == before


@pytest.mark.parametrize("words", LOOKS, ids="-".join)
def test_a_store_that_another_program_locks_is_named_as_such(tmp_path, words, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 50)
    here("send", "hello", "--data", tmp_path)
    db = apsw.Connection(str(tmp_path / "holdfast.db"))
    db.execute("pragma locking_mode=exclusive")
    db.execute("begin exclusive")
    try:
        done = here(*words, "--data", tmp_path)
    finally:
        db.execute("rollback")
        db.close()
    refused(done, "store_unavailable")


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_text("hello")
    for words in LOOKS:
        refused(here(*words, "--data", tmp_path / "file"), "store_path_invalid")
