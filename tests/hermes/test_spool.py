"""A record that the spool acknowledged is taken exactly once, whatever died in between; nothing else is taken."""

import errno
import os
import stat
import time
from collections import Counter

import pytest

from holdfast.hermes.plugin import spool as spool_module
from holdfast.hermes.plugin.spool import HEADER, Spool, SpoolError, decode, encode, spool_of
from holdfast.hermes.spool_reader import SpoolReader
from holdfast.kernel.errors import SpoolNewer


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "holdfast" / "spool"


def words(folder):
    return [record.content["user"] for record in SpoolReader(folder).waiting()]


def segment(folder):
    (path,) = folder.glob("*.spool")
    return path


def test_a_record_is_read_as_it_was_written(folder):
    text = "tea ☕\n\x00 \ud800 " + "x" * 100_000
    key = Spool(folder).append({"user": text})
    (record,) = SpoolReader(folder).waiting()
    assert (record.content["user"], record.key) == (text, key)


def test_the_files_are_private(folder):
    Spool(folder).append({"user": "a"})
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(segment(folder).stat().st_mode) == 0o600


def test_a_filed_record_is_not_taken_again_and_leaves_no_words(folder):
    spool, reader = Spool(folder), SpoolReader(folder)
    for text in ("first secret", "second secret"):
        spool.append({"user": text})
    first, _ = reader.waiting()
    reader.file([first])
    assert words(folder) == ["second secret"]
    assert b"first" not in segment(folder).read_bytes()
    spool.append({"user": "third"})
    assert words(folder) == ["second secret", "third"]


def test_a_line_that_was_cut_off_was_never_acknowledged(folder):
    Spool(folder).append({"user": "a"})
    with segment(folder).open("ab") as file:
        file.write(encode({"user": "torn"})[:-5])
    reader = SpoolReader(folder)
    assert [record.content["user"] for record in reader.waiting()] == ["a"]
    assert not reader.damaged


def test_a_damaged_line_is_reported_and_its_neighbours_are_taken(folder):
    spool = Spool(folder)
    for text in ("a", "bbbb", "c"):
        spool.append({"user": text})
    spool.close()
    path = segment(folder)
    path.write_bytes(path.read_bytes().replace(b"bbbb", b"bbbx"))
    reader = SpoolReader(folder)
    assert [record.content["user"] for record in reader.waiting()] == ["a", "c"]
    assert len(reader.damaged) == 1
    reader.file(reader.waiting())
    assert reader.prune() == 0, "the damaged line is kept"


def test_a_segment_is_removed_only_after_its_writer_and_its_records(folder):
    spool, reader = Spool(folder), SpoolReader(folder)
    spool.append({"user": "a"})
    assert reader.prune() == 0
    reader.file(reader.waiting())
    assert reader.prune() == 0, "the writer may still append"
    spool.append({"user": "b"})
    assert words(folder) == ["b"]
    spool.close()
    reader.file(reader.waiting())
    assert reader.prune() == 1
    assert list(folder.iterdir()) == []


def test_a_writer_whose_segment_was_removed_begins_another(folder):
    spool = Spool(folder)
    spool.append({"user": "a"})
    segment(folder).unlink()
    spool.append({"user": "b"})
    assert words(folder) == ["b"]


def test_a_full_segment_is_followed_by_another(folder, monkeypatch):
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES_MAX", 200)
    spool = Spool(folder)
    for n in range(10):
        spool.append({"user": str(n)})
    assert len(list(folder.iterdir())) > 3
    assert words(folder) == [str(n) for n in range(10)]


def test_records_of_several_writers_are_taken_by_time(folder, monkeypatch):
    now = [0]
    monkeypatch.setattr(time, "time_ns", lambda: now[0] * 1_000_000)
    one, other = Spool(folder), Spool(folder)
    for at, spool, text in ((5, one, "a"), (6, other, "b"), (3, one, "clock went back"), (7, other, "d")):
        now[0] = at
        spool.append({"user": text})
    taken = words(folder)
    assert taken.index("a") < taken.index("clock went back")
    assert taken.index("b") < taken.index("d")
    assert taken[-1] == "d"


def test_records_of_one_writer_keep_their_order_in_several_segments(folder, monkeypatch):
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES_MAX", 1)
    spool = Spool(folder)
    for at, text in ((9, "a"), (3, "the clock went back"), (4, "c")):
        monkeypatch.setattr(time, "time_ns", lambda now=at: now * 1_000_000)
        spool.append({"user": text})
    assert len(list(folder.iterdir())) == 3
    assert words(folder) == ["a", "the clock went back", "c"]


CALLS = ("open", "close", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "mkdir", "stat", "lstat", "readlink")


def test_a_record_costs_one_write_and_one_sync(tmp_path, monkeypatch):
    """Beyond them only the open segment is asked whether it still has a name. Nothing is opened, nothing resolved."""
    spool_of(tmp_path).append({"user": "the first opens the segment"})
    counts: Counter[str] = Counter()

    def counted(name, real):
        def call(*arguments, **more):
            counts[name] += 1
            return real(*arguments, **more)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    for n in range(5):
        spool_of(tmp_path).append({"user": f"turn {n}"})
    monkeypatch.undo()
    assert counts == {"write": 5, "fdatasync": 5}


def test_a_full_disk_is_an_error_and_leaves_no_half_line(folder, monkeypatch):
    spool, real = Spool(folder), os.write
    spool.append({"user": "a"})

    def full(handle, data):
        real(handle, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(SpoolError, match="not durable"):
            spool.append({"user": "lost"})
    spool.append({"user": "b"})
    assert words(folder) == ["a", "b"]


def test_a_record_is_on_the_disk_before_it_is_acknowledged(folder, monkeypatch):
    synced, real = [], os.fdatasync

    def sync(handle):
        real(handle)
        synced.append(os.fstat(handle).st_size)

    monkeypatch.setattr(os, "fdatasync", sync)
    spool = Spool(folder)
    for _ in range(2):
        spool.append({"user": "a"})
        (segment,) = folder.iterdir()
        assert synced[-1] == segment.stat().st_size, "the whole line was written when it was synced"
    assert len(synced) == 2


def test_a_record_whose_sync_failed_is_written_again_under_the_same_key(folder, monkeypatch):
    spool, real = Spool(folder), os.fdatasync
    spool.append({"user": "a"})
    failures = [OSError(errno.EIO, "Input/output error")]

    def once(handle):
        if failures:
            raise failures.pop()
        real(handle)

    monkeypatch.setattr(os, "fdatasync", once)
    key = spool.append({"user": "b"})
    records = [record for record in SpoolReader(folder).waiting() if record.content["user"] == "b"]
    assert {record.key for record in records} == {key}, "filing is idempotent by the key"


def test_a_spool_of_a_newer_version_is_left_alone(folder):
    folder.mkdir(parents=True)
    path = folder / "future.spool"
    path.write_bytes(HEADER.replace(b"1", b"2") + b"whatever\n")
    with pytest.raises(SpoolNewer, match="format 2"):
        SpoolReader(folder).waiting()
    assert path.read_bytes().endswith(b"whatever\n")


def test_all_agents_of_a_process_share_the_spool_of_a_home(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    assert spool_of(tmp_path) is spool_of(tmp_path / "link")
    assert spool_of(tmp_path) is not spool_of(tmp_path / "other")


def test_a_relative_home_is_that_of_the_working_directory(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name / "home").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        assert spool_of("home") is spool_of(tmp_path / name / "home")


def test_a_forked_process_has_a_writer_of_its_own(folder):
    spool = Spool(folder)
    mine = spool.append({"user": "parent"})
    spool._pid = -1  # as after a fork
    theirs = spool.append({"user": "child"})
    assert mine.split("-")[0] != theirs.split("-")[0]
    assert sorted(words(folder)) == ["child", "parent"]


def test_a_line_that_is_not_a_record_is_not_decoded():
    assert decode(b"+0000 nonsense\n") is None
    assert decode(b"+\n") is None
