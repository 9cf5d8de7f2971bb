"""The log file is private, is turned over when it is full, and keeps every line whole."""

import json
import logging
import stat

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
