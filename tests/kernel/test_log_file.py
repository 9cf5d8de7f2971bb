"""The log file is private, is turned over when it is full, and keeps every line whole."""

import json
import logging
import os
import stat
from errno import ENOSPC
from threading import Event, Thread
from unittest.mock import Mock

from holdfast.cli import logs
from holdfast.kernel import log
from tests.support.patience import HANGS_S


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


class Disk:
    """Takes so many bytes, and no more until it is told to."""

    def __init__(self, monkeypatch, room=0):
        self.room, self.full, self._write = room, Event(), os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, handle, data):
        if self.room < 1:
            self.full.set()
            raise OSError(ENOSPC, "No space left on device")
        taken = self._write(handle, data[: self.room])
        self.room -= taken
        return taken


def numbers_in(folder):
    return [json.loads(line)["n"] for line in (folder / logs.FILE).read_text(encoding="utf-8").splitlines()]


def test_lines_are_written_in_a_moment_by_themselves(tmp_path, monkeypatch):
    written, write = Event(), logs.PrivateFile._write

    def writing(handler):
        write(handler)
        written.set()

    monkeypatch.setattr(logs.PrivateFile, "_write", writing)
    with logs.logging_to(logs.to_file(tmp_path)):
        log.info("accept.accepted")
        assert written.wait(HANGS_S)
        assert events_in(tmp_path) == ["accept.accepted"]


def test_a_disk_that_is_full_for_a_while_loses_no_line_and_cuts_none(tmp_path, monkeypatch, capsys):
    disk = Disk(monkeypatch, room=100)
    with logs.logging_to(logs.to_file(tmp_path)):
        for n in range(300):
            log.info("accept.accepted", n=n, of="a long line, so that they are more than any buffer between")
        assert disk.full.wait(HANGS_S)
        log.warning("recall.skipped", n=300)
        disk.room = 1 << 20
        log.warning("recall.skipped", n=301)
        assert numbers_in(tmp_path) == list(range(302))
    assert capsys.readouterr() == ("", "")


def test_logging_on_a_full_disk_prints_nothing(tmp_path, monkeypatch, capsys):
    """A pipe without a reader would block the whole process."""
    disk = Disk(monkeypatch)
    with logs.logging_to(logs.to_file(tmp_path)):
        for n in range(50):
            log.error("loop.failed", failure=ValueError("a word of somebody"), n=n)
        assert capsys.readouterr() == ("", "")
        disk.room = 1 << 20
    assert numbers_in(tmp_path) == list(range(50))


def test_a_line_that_cannot_be_written_down_is_named(tmp_path, capsys):
    with logs.logging_to(logs.to_file(tmp_path)):
        logging.getLogger("uvicorn.error").warning("%d things", "many")
        log.warning("recall.skipped")
    assert events_in(tmp_path) == ["%d things", "recall.skipped"]
    assert capsys.readouterr() == ("", "")


def test_what_waits_for_a_disk_that_stays_full_is_bounded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(logs, "LINES_MAX", 10)
    disk, handler = Disk(monkeypatch), logs.to_file(tmp_path)
    assert isinstance(handler, logs.PrivateFile)
    with logs.logging_to(handler):
        log.warning("recall.skipped", n=0)
        for n in range(1, 50):
            log.info("accept.accepted", n=n)
        assert (handler._begun.count(b"\n"), len(handler._lines)) == (1, 10)
        disk.room = 1 << 20
    assert capsys.readouterr() == ("", "")
    assert numbers_in(tmp_path) == [0, *range(40, 50)]


def test_a_process_that_ends_on_a_full_disk_ends_well_and_says_how_much_was_lost(tmp_path, monkeypatch, capsys):
    Disk(monkeypatch)
    with logs.logging_to(logs.to_file(tmp_path)):
        log.info("accept.accepted")
        log.info("runtime.closed")
    assert capsys.readouterr().err == "2 lines of the log could not be written ([Errno 28] No space left on device)\n"


def test_a_machine_without_free_threads_fails_no_caller_that_logs(tmp_path, monkeypatch, capsys):
    with logs.logging_to(logs.to_file(tmp_path)), monkeypatch.context() as without:
        without.setattr(Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        log.info("accept.accepted")
        without.undo()
        log.info("claim.taken")
    assert events_in(tmp_path) == ["accept.accepted", "claim.taken"]
    assert capsys.readouterr() == ("", "")


def test_an_exception_is_written_with_its_trace(tmp_path):
    with logs.logging_to(logs.to_file(tmp_path)):
        try:
            int("seven")
        except ValueError as error:
            log.error("loop.failed", failure=error, loop="worker")
    line = json.loads((tmp_path / logs.FILE).read_text(encoding="utf-8"))
    assert line["level"] == "error"
    assert line["trace"].endswith("ValueError: invalid literal for int() with base 10: 'seven'")


def test_a_log_handler_of_the_library_gets_records_with_their_fields(caplog):
    with caplog.at_level(logging.INFO, logger="holdfast"), log.pinned(mailbox="box_1"):
        log.info("claim.taken", agent="main")
    assert [(one.name, one.message, one.fields) for one in caplog.records] == [
        ("holdfast", "claim.taken", {"mailbox": "box_1", "agent": "main"})
    ]
