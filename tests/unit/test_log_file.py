"""The log file is private, is turned over when it is full, and keeps every line whole."""

import json
import logging
import stat
from errno import ENOSPC
from queue import Queue

from holdfast import log
from holdfast.cli import logs


def test_a_full_file_is_turned_over_and_no_line_is_lost_or_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "FILE_BYTES_MAX", 1_000)
    with logs.logging_to(logs.to_file(tmp_path)):
        for n in range(40):
            log.info("accept.accepted", n=n)
    files = sorted(tmp_path.iterdir())
    assert 2 < len(files) <= 1 + logs.FILES_KEPT
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert sorted(line["n"] for line in lines) == list(range(40))
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert all(file.stat().st_size < 1_200 for file in files)


def events_in(folder):
    return [json.loads(line)["event"] for line in (folder / logs.FILE).read_text(encoding="utf-8").splitlines()]


def test_a_warning_is_on_file_at_once_with_what_was_said_before(tmp_path):
    with logs.logging_to(logs.to_file(tmp_path)):
        log.info("accept.accepted")
        log.warning("recall.skipped")
        assert events_in(tmp_path) == ["accept.accepted", "recall.skipped"]


def test_lines_are_written_in_a_moment_and_a_disk_that_is_full_for_a_while_loses_none(tmp_path, monkeypatch):
    tried, write, is_full = Queue(), logs.PrivateFile._write, True

    def writing(handler, room):
        if is_full:
            tried.put("full")
            raise OSError(ENOSPC, "No space left on device")
        write(handler, room)
        tried.put("written")

    monkeypatch.setattr(logs.PrivateFile, "_write", writing)
    with logs.logging_to(logs.to_file(tmp_path)):
        log.info("accept.accepted")
        assert tried.get() == "full"
        is_full = False
        log.info("claim.taken")
        assert tried.get() == "written"
        assert events_in(tmp_path) == ["accept.accepted", "claim.taken"]


def test_what_waits_for_a_disk_that_stays_full_is_bounded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(logs, "LINES_MAX", 10)
    handler = logs.to_file(tmp_path)

    def full(_room):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(handler, "_write", full)
    with logs.logging_to(handler):
        for n in range(50):
            log.info("accept.accepted", n=n)
        assert len(handler._lines) == 10
        monkeypatch.undo()
    assert "No space left on device" in capsys.readouterr().err
    lines = (tmp_path / logs.FILE).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(40, 50))


def test_an_exception_is_written_with_its_trace(tmp_path):
    with logs.logging_to(logs.to_file(tmp_path)):
        try:
            int("seven")
        except ValueError as error:
            log.error("loop.failed", failure=error, loop="worker")
    line = json.loads((tmp_path / logs.FILE).read_text(encoding="utf-8"))
    assert line["level"] == "error"
    assert line["trace"].endswith("ValueError: invalid literal for int() with base 10: 'seven'")


def test_whoever_listens_to_the_library_hears_records_with_their_fields(caplog):
    with caplog.at_level(logging.INFO, logger="holdfast"), log.pinned(mailbox="box_1"):
        log.info("claim.taken", agent="main")
    assert [(one.name, one.message, one.fields) for one in caplog.records] == [
        ("holdfast", "claim.taken", {"mailbox": "box_1", "agent": "main"})
    ]
