"""A repair changes rows of a copy, leaves the doctor silent and the home untouched, and does nothing a second time."""

import json
import multiprocessing
import os
import sqlite3
import stat
import sys
from pathlib import Path

import pytest

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.finding import Severity
from holdfast.hermes.doctor.repair import preview, repair_in_place, repair_to
from holdfast.kernel.errors import HermesDatabaseCorrupt, HermesRunning, InvalidInput
from tests.hermes.test_doctor import CHAT, NOW, chat_columns, digests, healthy, lost_turn, stopped_while_writing, talk
from tests.support.hermes_home import HermesChat, HermesHome

LOST = "said while it summarised"


def damage_page(path, table):
    """Overwrite the first page of a table or an index."""
    with sqlite3.connect(path) as db:
        page = db.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()[0]
        size = db.execute("pragma page_size").fetchone()[0]
    db.close()
    with path.open("r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(b"\xa5" * size)


def ended_without_child(folder):
    home = healthy(folder)
    home.session("s9")
    home.say("s9", "hello", "hi")
    home.end("s9", "compression")
    return home


def empty_continuation(folder):
    home = HermesHome(folder, "0.14.0")
    talk(home, chat=CHAT)
    home.end("s1", "compression")
    home.session("s2", parent_session_id="s1")
    home.route(CHAT, "s2")
    return home


def forked(folder):
    home = HermesHome(folder, "0.14.0")
    talk(home, chat=CHAT)
    home.rotate("s1", "s2", "sum")
    home.rotate("s1", "s3", "sum")
    home.say("s2", "to the one", "yes")
    home.say("s3", "to the other", "yes")
    home.route(CHAT, "s2")
    return home


def broken_lineage(folder):
    home = HermesHome(folder)
    for one in ("s1", "s2"):
        home.session(one)
        home.say(one, "hello", "hi")
    home.db.execute("update sessions set parent_session_id = case id when 's1' then 's2' else 's1' end")
    home.session("s3", parent_session_id="gone")
    home.say("s3", "hello", "hi")
    home.message("lost", "user", "anybody?")
    return home


def chatless(folder):
    home = HermesHome(folder)
    talk(home, chat=CHAT)
    home.rotate("s1", "s2", "sum")
    home.route(CHAT, "s1")
    return home


def archived(folder):
    home = HermesHome(folder)
    talk(home)
    known = home._active("s1")
    home.message("s1", "user", LOST)
    home.use_tool("s1", "call_9", "terminal", {"command": "ls"}, "a b")
    home.message("s1", "assistant", "answered meanwhile")
    home.db.execute("update messages set active = 0, compacted = 1 where active = 1")
    home._carry("s1", known, "sum", head=1, tail=2)
    home.say("s1", "later", "yes")
    return home


def left_in_parent(folder):
    home = HermesHome(folder)
    talk(home)
    known = home._active("s1")
    home.say("s1", LOST, "answered meanwhile")
    home.end("s1", "compression")
    home.session("s2", parent_session_id="s1")
    home._carry("s2", known, "sum", head=1, tail=2)
    home.say("s2", "later", "yes")
    return home


def reinserted(folder):
    home = HermesHome(folder)
    home.session("s1", CHAT)
    rows = [home.say("s1", f"question {n}", f"answer {n}") for n in range(3)]
    for user, assistant in rows:
        old = {one["id"]: one for one in home._active("s1")}
        home.message("s1", "user", old[user]["content"], timestamp=old[user]["timestamp"])
        home.message("s1", "assistant", old[assistant]["content"])
    home.rotate("s1", "s2", "sum", **chat_columns())
    home.route(CHAT, "s2")
    return home


def twice(folder, release="0.19.0"):
    home = HermesHome(folder, release)
    home.session("s1")
    home.message("s1", "user", "please deploy")
    home.message("s1", "user", "please deploy")
    home.message("s1", "assistant", "done")
    return home


def small_faults(folder):
    home = healthy(folder)
    home.lock("s1", expires_at=NOW - 1)
    home.db.execute("delete from messages_fts where rowid = 2")
    home.db.execute("insert into messages_fts_trigram(rowid, content) values (9999, 'ghost')")
    home.db.execute("update sqlite_sequence set seq = 1 where name = 'messages'")
    home.route(HermesChat(chat="7", user="7"), "old")
    home.session("s8", CHAT)
    home.say("s8", "hello", "hi")
    home.route(CHAT, "s8", mirror=False)
    return home


def unconnected(folder):
    """The log proves the rotation; the new session does not name its parent."""
    home = HermesHome(folder, "0.14.0")
    talk(home, chat=CHAT)
    home.rotate("s1", "s2", "sum")
    home.db.execute("update sessions set parent_session_id = null where id = 's2'")
    home.route(CHAT, "s2")
    home.log(
        "2026-02-02 03:00:00,100 INFO [s1] run_agent: context compression started: session=s1 messages=10 tokens=~9 m",
        "2026-02-02 03:00:09,100 INFO [s1] run_agent: context compression done: session=s2 messages=10->4 tokens=~3",
    )
    return home


def written_over(folder):
    """Another process wrote its own routing table; sessions.json still has the entry."""
    home = healthy(folder)
    other = HermesChat(chat="9", user="9")
    home.session("s9", other)
    home.say("s9", "hello", "hi")
    home.route(other, "s9")
    home.db.execute("delete from gateway_routing where session_key = ?", (other.key,))
    return home


def index_out_of_step(folder, title="'A title of ' || id"):
    """Rows that were written while the index was not known are not in it."""
    home = healthy(folder)
    row = home.db.execute("select * from sqlite_master where name = 'idx_sessions_title_unique'").fetchone()
    home.db.execute("pragma writable_schema = on")
    home.db.execute("delete from sqlite_master where name = 'idx_sessions_title_unique'")
    home.close()
    home.db = sqlite3.connect(home.state, isolation_level=None)
    home.db.execute(f"update sessions set title = {title}")
    home.db.execute("pragma writable_schema = on")
    home.db.execute("insert into sqlite_master values (?, ?, ?, ?, ?)", row)
    return home


def index_page_damaged(folder):
    home = healthy(folder)
    home.db.execute("update sessions set title = 'A title of ' || id")
    home.close()
    damage_page(home.state, "idx_sessions_title_unique")
    home.db = sqlite3.connect(home.state, isolation_level=None)
    return home


DAMAGES = {
    "ended without child": ended_without_child,
    "empty continuation": empty_continuation,
    "incomplete continuation": lambda folder: stopped_while_writing(folder, 3),
    "forked": forked,
    "broken lineage": broken_lineage,
    "chatless": chatless,
    "archived": archived,
    "left in parent": left_in_parent,
    "deleted": lost_turn,
    "reinserted": reinserted,
    "twice": twice,
    "twice in 0.14": lambda folder: twice(folder, "0.14.0"),
    "small faults": small_faults,
    "unconnected": unconnected,
    "written over": written_over,
    "index out of step": index_out_of_step,
}


def damage(make, folder):
    """Make a damaged home and close it, as a stopped Hermes does."""
    made = make(folder)
    (made[0] if isinstance(made, tuple) else made).close()


def schema_of(path):
    with sqlite3.connect(path) as db:
        return db.execute("select type, name, sql from sqlite_master order by type, name").fetchall()


def spoken(path, session):
    with sqlite3.connect(path) as db:
        names = [row[1] for row in db.execute("pragma table_info(messages)")]
        live = " and active = 1" if "active" in names else ""
        rows = db.execute(f"select role, content from messages where session_id = ?{live} order by id", (session,))
        return [row[1] for row in rows if row[0] in ("user", "assistant") and row[1]]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_repaired_on_a_copy(name, tmp_path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    damage(DAMAGES[name], home)
    assert not examine(home, NOW).is_silent
    before = digests(home)
    result = repair_to(home, copy, NOW)
    assert digests(home) == before
    assert result.applied
    assert result.after.is_silent, [one.what for one in result.after.findings]
    assert examine(copy, NOW).is_silent
    assert schema_of(copy / "state.db") == schema_of(home / "state.db")
    with sqlite3.connect(copy / "state.db") as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    again = preview(copy, NOW)
    assert (again.applied, again.diff) == ([], [])
    assert stat.S_IMODE((copy / "state.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("make", "session"), [(archived, "s1"), (left_in_parent, "s2"), (lost_turn, "20260528_155201_68dc5996")]
)
def test_a_turn_returns_between_the_compressed_history_and_what_came_later(make, session, tmp_path):
    damage(make, tmp_path / "home")
    repair_to(tmp_path / "home", tmp_path / "copy", NOW)
    said = spoken(tmp_path / "copy" / "state.db", session)
    assert said[-6:] == ["question number 4", "answer number 4", LOST, "answered meanwhile", "later", "yes"]


def test_the_routed_continuation_of_a_fork_lives_on_and_the_other_keeps_its_words(tmp_path):
    damage(forked, tmp_path / "home")
    repair_to(tmp_path / "home", tmp_path / "copy", NOW)
    with sqlite3.connect(tmp_path / "copy" / "state.db") as db:
        ended = dict(db.execute("select id, end_reason from sessions"))
    assert ended == {"s1": "compression", "s2": None, "s3": "orphaned_compression"}
    assert "to the other" in spoken(tmp_path / "copy" / "state.db", "s3")


def test_an_entry_that_only_the_mirror_has_returns_to_the_table(tmp_path):
    damage(written_over, tmp_path / "home")
    repair_to(tmp_path / "home", tmp_path / "copy", NOW)
    with sqlite3.connect(tmp_path / "copy" / "state.db") as db:
        rows = db.execute("select session_key, entry_json from gateway_routing").fetchall()
    routed = {key: json.loads(entry)["session_id"] for key, entry in rows}
    assert routed == {"agent:main:telegram:dm:4242": "s1", "agent:main:telegram:dm:9": "s9"}


def test_a_damaged_page_of_an_index_is_found_and_the_repair_refused(tmp_path):
    damage(index_page_damaged, tmp_path / "home")
    (found,) = [one for one in examine(tmp_path / "home", NOW).findings if one.severity is Severity.ERROR]
    assert found.kind.code == "integrity"
    before = digests(tmp_path / "home")
    for act in (
        lambda: repair_to(tmp_path / "home", tmp_path / "copy", NOW),
        lambda: repair_in_place(tmp_path / "home", tmp_path / "backup", NOW),
    ):
        with pytest.raises(HermesDatabaseCorrupt, match=r"\.recover"):
            act()
    assert digests(tmp_path / "home") == before
    assert not (tmp_path / "copy").exists()


def test_a_unique_index_over_two_equal_titles_is_left_and_told(tmp_path):
    damage(lambda folder: index_out_of_step(folder, "'the same'"), tmp_path / "home")
    result = preview(tmp_path / "home", NOW)
    assert [one.kind.code for one in result.applied] == ["integrity"]
    assert result.diff == []
    assert not result.after.is_silent


@pytest.mark.parametrize("release", ["0.14.0", "0.19.0"])
def test_search_finds_the_messages_again_and_nothing_else(release, tmp_path):
    home = healthy(tmp_path / "home", release)
    home.db.execute("delete from messages_fts where rowid = 2")
    home.db.execute("update messages_fts set content = 'something else' where rowid = 3")
    home.db.execute("insert into messages_fts_trigram(rowid, content) values (9999, 'ghost')")
    home.db.execute("delete from messages_fts_trigram where rowid = 2")
    home.close()
    repair_to(tmp_path / "home", tmp_path / "copy", NOW)
    with sqlite3.connect(tmp_path / "copy" / "state.db") as db:
        for table in ("messages_fts", "messages_fts_trigram"):
            db.execute(f"insert into {table}({table}, rank) values ('integrity-check', 0)")
            found = [row[0] for row in db.execute(f"select rowid from {table} where {table} match 'question'")]
            assert 2 in found
            assert not db.execute(f"select rowid from {table} where {table} match 'ghost'").fetchall()


@pytest.mark.parametrize("name", ["empty continuation", "incomplete continuation"])
def test_a_chat_is_routed_to_the_session_that_goes_on(name, tmp_path):
    damage(DAMAGES[name], tmp_path / "home")
    repair_to(tmp_path / "home", tmp_path / "copy", NOW)
    mirror = json.loads((tmp_path / "copy" / "sessions" / "sessions.json").read_text())
    assert mirror[CHAT.key]["session_id"] == "s1"


def test_what_is_only_suspected_is_left_alone(tmp_path):
    lost_turn(tmp_path / "home", log=False)[0].close()
    result = preview(tmp_path / "home", NOW)
    assert (result.applied, result.diff) == ([], [])
    assert not result.after.is_silent


def test_a_dry_run_changes_nothing(tmp_path):
    damage(small_faults, tmp_path / "home")
    before = digests(tmp_path / "home")
    result = preview(tmp_path / "home", NOW)
    assert result.diff
    assert result.place == ""
    assert digests(tmp_path / "home") == before


def test_in_place_a_backup_is_kept(tmp_path):
    home, backup = tmp_path / "home", tmp_path / "home" / "backups" / "one"
    built = HermesHome(home)
    built.close()
    (home / "state.db").unlink()
    small_faults_closed(home)
    damaged = examine(home, NOW)
    repair_in_place(home, backup, NOW)
    assert examine(home, NOW).is_silent
    assert len(examine_file(backup / "state.db")) == len(damaged.records.messages) if damaged.records else False
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    assert not (home / "state.db-wal").exists()
    assert repair_in_place(home, tmp_path / "unused", NOW).diff == []
    assert not (tmp_path / "unused").exists()


def small_faults_closed(folder):
    home = healthy(folder)
    home.lock("s1", expires_at=NOW - 1)
    home.db.execute("delete from messages_fts where rowid = 2")
    home.close()


def examine_file(path):
    with sqlite3.connect(path) as db:
        return db.execute("select id from messages").fetchall()


def hold(path, ready, done):
    db = sqlite3.connect(path)
    db.execute("select count(*) from messages").fetchall()
    ready.set()
    done.wait(60)
    db.close()


def test_in_place_is_refused_while_another_process_has_the_database_open(tmp_path):
    small_faults_closed(tmp_path)
    before = digests(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(str(tmp_path / "state.db"), ready, done))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(HermesRunning):
            repair_in_place(tmp_path, tmp_path / "backup", NOW)
    finally:
        done.set()
        other.join()
    assert digests(tmp_path)["state.db"][0] == before["state.db"][0]
    assert not (tmp_path / "backup").exists()


def test_every_repair_is_refused_while_the_gateway_runs(tmp_path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    small_faults_closed(home)
    (home / "gateway.pid").write_text(json.dumps({"pid": os.getpid()}))
    before = digests(home)
    for act in (
        lambda: repair_in_place(home, copy, NOW),
        lambda: repair_to(home, copy, NOW),
        lambda: preview(home, NOW),
    ):
        with pytest.raises(HermesRunning, match=r"gateway\.pid"):
            act()
    assert digests(home) == before
    assert not copy.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process began")
def test_a_number_that_another_process_has_now_is_no_gateway(tmp_path):
    small_faults_closed(tmp_path)
    began = int(Path(f"/proc/{os.getpid()}/stat").read_text().split()[21])
    (tmp_path / "gateway.pid").write_text(json.dumps({"pid": os.getpid(), "start_time": began}))
    with pytest.raises(HermesRunning):
        preview(tmp_path, NOW)
    (tmp_path / "gateway.pid").write_text(json.dumps({"pid": os.getpid(), "start_time": began - 1}))
    assert preview(tmp_path, NOW).diff


def test_the_folder_of_the_copy_must_be_new(tmp_path):
    small_faults_closed(tmp_path / "home")
    (tmp_path / "copy").mkdir()
    with pytest.raises(InvalidInput, match="exists already"):
        repair_to(tmp_path / "home", tmp_path / "copy", NOW)
