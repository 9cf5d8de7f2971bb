"""A repair changes rows of a copy, leaves the doctor silent and the home untouched, and does nothing a second time."""

import json
import multiprocessing
import os
import sqlite3
import stat

import pytest

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.repair import preview, repair_in_place, repair_to
from holdfast.kernel.errors import HermesRunning, InvalidInput
from tests.hermes.test_doctor import CHAT, NOW, chat_columns, digests, healthy, lost_turn, talk
from tests.support.hermes_home import HermesChat, HermesHome

LOST = "said while it summarised"


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


DAMAGES = {
    "ended without child": ended_without_child,
    "empty continuation": empty_continuation,
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


def test_a_chat_is_routed_to_the_session_that_goes_on(tmp_path):
    damage(empty_continuation, tmp_path / "home")
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


def test_in_place_is_refused_while_the_gateway_runs(tmp_path):
    small_faults_closed(tmp_path)
    (tmp_path / "gateway.pid").write_text(json.dumps({"pid": os.getpid()}))
    before = digests(tmp_path)
    with pytest.raises(HermesRunning, match=r"gateway\.pid"):
        repair_in_place(tmp_path, tmp_path / "backup", NOW)
    assert digests(tmp_path) == before


def test_the_folder_of_the_copy_must_be_new(tmp_path):
    small_faults_closed(tmp_path / "home")
    (tmp_path / "copy").mkdir()
    with pytest.raises(InvalidInput, match="exists already"):
        repair_to(tmp_path / "home", tmp_path / "copy", NOW)
