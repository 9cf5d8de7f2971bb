"""The doctor finds each kind of damage, names its sessions, and is silent on healthy homes of every release."""

import hashlib
import json
import os

import pytest

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.finding import KINDS, Certainty, Severity
from tests.support.hermes_home import BEGAN_AT, NEWEST, RELEASES, HermesChat, HermesHome

NOW = BEGAN_AT + 10_000
CHAT = HermesChat()
IN_PLACE = [release for release in RELEASES if release >= "0.18"]
ROTATING = [release for release in RELEASES if release < "0.18"]


def chat_columns(chat=CHAT):
    return {"user_id": chat.user, "session_key": chat.key, "chat_id": chat.chat, "chat_type": chat.type}


def healthy(folder, release=NEWEST):
    """A chat with a compressed history, a command-line session with a tool, and a chat that was reset."""
    home = HermesHome(folder, release)
    home.session("s1", CHAT)
    home.message("s1", "session_meta", None)
    for n in range(6):
        home.say("s1", f"question number {n}", f"  answer number {n} ")
    if release in IN_PLACE:
        home.compact_in_place("s1", "the first questions", head=1, tail=4)
        home.say("s1", "ok", "fine")
        home.compact_in_place("s1", "the second summary", head=1, tail=2)
        live = "s1"
    else:
        live = home.rotate("s1", "s2", "the first questions", head=1, tail=4)
    home.say(live, "ok", "good")
    home.route(CHAT, live)
    home.session("c1")
    home.say("c1", "ok", "yes")
    home.use_tool("c1", "call_1", "terminal", {"command": "ls"}, "a b")
    home.say("c1", "ok", "yes")
    home.session("old", HermesChat(chat="7", user="7"))
    home.say("old", "before", "after")
    home.end("old", "session_reset")
    home.remember(memory=["Deploys on Fridays.", "Tea."], user=["Ada"])
    return home


def digests(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in files
    }


def wrong(folder, **more):
    """The findings that are not information, as (kind, sessions)."""
    found = examine(folder, more.pop("now", NOW), **more).findings
    return [(one.kind.code, one.sessions) for one in found if one.severity is not Severity.INFO]


@pytest.mark.parametrize("release", RELEASES)
def test_a_healthy_home_is_silent(release, tmp_path):
    home = healthy(tmp_path, release)
    assert wrong(tmp_path) == []
    home.close()
    assert wrong(tmp_path) == []


def test_the_home_keeps_every_byte_with_its_log_open_and_closed(tmp_path):
    home = healthy(tmp_path)
    before = digests(tmp_path)
    assert "state.db-wal" in before
    examine(tmp_path, NOW)
    assert digests(tmp_path) == before
    home.close()
    before = digests(tmp_path)
    examine(tmp_path, NOW)
    assert digests(tmp_path) == before


def test_changes_in_the_write_ahead_log_are_read(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1")
    home.say("s1", "hello", "hi")
    found = examine(tmp_path, NOW)
    assert found.records is not None
    assert len(found.records.messages) == 2
    assert [one.kind.code for one in found.findings if one.kind.code == "wal_left"] == ["wal_left"]


# --- lineage


def test_a_session_that_a_compression_ended_without_continuation(tmp_path):
    home = healthy(tmp_path)
    home.session("s9")
    home.say("s9", "hello", "hi")
    home.end("s9", "compression")
    assert wrong(tmp_path) == [("ended_without_child", ("s9",))]


def test_an_empty_continuation(tmp_path):
    home = healthy(tmp_path, "0.14.0")
    home.session("s9")
    home.say("s9", "hello", "hi")
    home.end("s9", "compression")
    home.session("s10", parent_session_id="s9")
    assert wrong(tmp_path) == [("empty_continuation", ("s9", "s10"))]


def test_an_empty_continuation_of_a_running_hermes_is_not_an_error_yet(tmp_path):
    home = healthy(tmp_path, "0.14.0")
    home.session("s9")
    home.say("s9", "hello", "hi")
    home.end("s9", "compression")
    home.session("s10", parent_session_id="s9")
    (tmp_path / "gateway.pid").write_text(json.dumps({"pid": os.getpid(), "kind": "hermes-gateway"}))
    assert wrong(tmp_path) == []
    assert {"empty_continuation", "hermes_running"} <= {one.kind.code for one in examine(tmp_path, NOW).findings}


def stopped_while_writing(folder, count, release="0.14.0"):
    """Hermes was stopped after it had written this many rows of the compressed history, and of the turn behind it."""
    home = HermesHome(folder, release)
    talk(home, chat=CHAT)
    home.rotate("s1", "s2", "sum", head=1, tail=4)
    home.say("s2", "the newest question", "its answer")
    rows = [row[0] for row in home.db.execute("select id from messages where session_id = 's2' order by id")]
    home.db.executemany("delete from messages where id = ?", [(row,) for row in rows[count:]])
    home.route(CHAT, "s2")
    return home


@pytest.mark.parametrize("count", range(9))
def test_a_continuation_that_was_written_in_part(count, tmp_path):
    stopped_while_writing(tmp_path, count)
    kind = "empty_continuation" if count == 0 else "incomplete_continuation"
    assert wrong(tmp_path) == ([(kind, ("s1", "s2"))] if count < 6 else [])


def test_two_live_continuations(tmp_path):
    home = HermesHome(tmp_path, "0.14.0")
    home.session("s1")
    for n in range(4):
        home.say("s1", f"question {n}", f"answer {n}")
    home.rotate("s1", "s2", "sum")
    home.rotate("s1", "s3", "sum")
    home.say("s2", "to the one", "yes")
    home.say("s3", "to the other", "yes")
    assert wrong(tmp_path) == [("forked_lineage", ("s1", "s2", "s3"))]


def test_a_branch_is_no_fork(tmp_path):
    home = healthy(tmp_path, "0.14.0")
    home.session("b1", parent_session_id="s1", model_config=json.dumps({"_branched_from": "s1"}))
    home.say("b1", "elsewhere", "yes")
    assert wrong(tmp_path) == []


def test_a_cycle(tmp_path):
    home = HermesHome(tmp_path)
    for one in ("s1", "s2"):
        home.session(one)
        home.say(one, "hello", "hi")
    home.db.execute("update sessions set parent_session_id = case id when 's1' then 's2' else 's1' end")
    assert wrong(tmp_path) == [("lineage_cycle", ("s1", "s2"))]


def test_a_missing_parent_and_messages_without_session(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1", parent_session_id="gone")
    home.say("s1", "hello", "hi")
    home.message("lost", "user", "anybody?")
    assert wrong(tmp_path) == [("parent_missing", ("s1",)), ("orphan_messages", ("lost",))]


def test_a_continuation_that_does_not_know_its_chat(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1", CHAT)
    for n in range(4):
        home.say("s1", f"question {n}", f"answer {n}")
    home.rotate("s1", "s2", "sum")
    home.route(CHAT, "s2")
    assert wrong(tmp_path) == [("origin_missing", ("s2",))]


# --- turns during a compression


def talk(home, session="s1", chat=None):
    home.session(session, chat)
    for n in range(5):
        home.say(session, f"question number {n}", f"answer number {n}")


def test_a_turn_that_was_archived_without_a_summary(tmp_path):
    home = HermesHome(tmp_path)
    talk(home)
    known = home._active("s1")
    home.say("s1", "said while it summarised", "answered meanwhile")
    home.db.execute("update messages set active = 0, compacted = 1 where active = 1")
    home._carry("s1", known, "sum", head=1, tail=2)
    home.say("s1", "later", "yes")
    found = examine(tmp_path, NOW).findings[0]
    assert (found.kind.code, found.sessions) == ("turn_archived_uncovered", ("s1",))
    assert found.certainty is Certainty.LIKELY
    assert [row.split(":")[0] for row in found.evidence.rows] == ["messages 11", "messages 12"]


@pytest.mark.parametrize("later", ["deploy on Friday, not on Monday", "and the deploy on Friday?"])
def test_a_later_message_that_contains_the_words_of_an_archived_turn_does_not_hide_it(later, tmp_path):
    home = HermesHome(tmp_path)
    talk(home)
    known = home._active("s1")
    home.say("s1", "deploy on Friday", "noted")
    home.db.execute("update messages set active = 0, compacted = 1 where active = 1")
    home._carry("s1", known, "sum", head=1, tail=2)
    home.say("s1", later, "noted, but why?")
    assert wrong(tmp_path) == [("turn_archived_uncovered", ("s1",))]


def test_messages_that_hermes_joined_are_carried_and_not_lost(tmp_path):
    home = HermesHome(tmp_path)
    talk(home)
    home.message("s1", "user", "never answered")
    home.say("s1", "the next message", "the answer to both")
    known = home._active("s1")
    home.db.execute("update messages set active = 0, compacted = 1 where active = 1")
    tasks = "[Your active task list was preserved across context compression]\n- [ ] t1. deploy"
    home._carry("s1", known[:-3], "sum", head=1, tail=0)
    home.message("s1", "user", "never answered\n\nthe next message")
    home.message("s1", "assistant", "the answer to both")
    assert wrong(tmp_path) == []
    home.message("s1", "user", f"later\n\n{tasks}")
    home.message("s1", "assistant", "yes")
    assert wrong(tmp_path) == []


def test_a_lost_turn_is_found_beside_a_later_message_that_contains_its_words(tmp_path):
    home, session = lost_turn(tmp_path, log=False)
    home.say(session, "what was said while it summarised, please?", "answered meanwhile: nothing")
    assert wrong(tmp_path) == [("turn_lost", (session,))]


def test_a_turn_that_stayed_in_the_parent(tmp_path):
    home = HermesHome(tmp_path)
    talk(home)
    known = home._active("s1")
    home.say("s1", "said while it summarised", "answered meanwhile")
    home.end("s1", "compression")
    home.session("s2", parent_session_id="s1")
    home._carry("s2", known, "sum", head=1, tail=2)
    assert wrong(tmp_path) == [("turn_left_in_parent", ("s1", "s2"))]


def lost_turn(folder, *, log=True, transcript=True):
    home = HermesHome(folder, "0.14.0")
    talk(home, "20260528_155201_68dc5996")
    session = "20260528_155201_68dc5996"
    known = home._active(session)
    home.say(session, "said while it summarised", "answered meanwhile")
    if transcript:
        home.transcript(session, home._active(session))
    home.db.execute("delete from messages")
    home._carry(session, known, "sum", head=1, tail=2)
    home.say(session, "later", "yes")
    if log:
        before = "INFO run_agent: context compression"
        home.log(
            f"2026-02-02 02:39:00,100 {before} started: session={session} messages=10 tokens=~9 model=m focus=None",
            f"2026-02-02 02:39:05,100 INFO [{session}] run_agent: conversation turn: session={session} model=m "
            "provider=p platform=telegram history=10 msg='said while it summarised'",
            f"2026-02-02 02:39:09,100 {before} done: session={session} messages=10->4 tokens=~3",
        )
    return home, session


def test_a_turn_that_was_deleted_is_found_by_log_and_transcript(tmp_path):
    _, session = lost_turn(tmp_path)
    found = examine(tmp_path, NOW).findings
    assert [(one.kind.code, one.sessions, one.certainty) for one in found if one.severity is Severity.ERROR] == [
        ("turn_lost", (session,), Certainty.CERTAIN)
    ]
    assert len(found[0].evidence.lines) == 3
    assert found[0].evidence.files == (f"session_{session}.json holds 2 of them",)
    (rewritten,) = [one for one in found if one.kind.code == "history_rewritten"]
    assert rewritten.severity is Severity.INFO
    assert f"session_{session}.json still holds 9 of those that are gone" in rewritten.what
    assert rewritten.evidence.files == (f"sessions/session_{session}.json: 12 messages",)


def test_a_later_compression_may_have_covered_a_lost_turn(tmp_path):
    home, session = lost_turn(tmp_path, transcript=False)
    home.log(
        f"2026-02-02 02:39:30,100 INFO run_agent: context compression started: session={session} messages=8 tokens=~9",
        f"2026-02-02 02:39:39,100 INFO run_agent: context compression done: session={session} messages=8->4 tokens=~3",
    )
    assert wrong(tmp_path) == []


def test_a_turn_that_only_the_transcript_has_is_suspected(tmp_path):
    lost_turn(tmp_path, log=False)
    found = examine(tmp_path, NOW).findings[0]
    assert (found.kind.code, found.certainty) == ("turn_lost", Certainty.SUSPECTED)
    assert not found.is_repaired


# --- rows and numbers


def test_a_transcript_that_was_written_again_before_a_rotation(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1", CHAT)
    rows = [home.say("s1", f"question {n}", f"answer {n}") for n in range(3)]
    for user, assistant in rows:
        old = {one["id"]: one for one in home._active("s1")}
        home.message("s1", "user", old[user]["content"], timestamp=old[user]["timestamp"])
        home.message("s1", "assistant", old[assistant]["content"])
    home.rotate("s1", "s2", "sum", **chat_columns())
    home.route(CHAT, "s2")
    assert wrong(tmp_path) == [("rows_reinserted", ("s1",))]


def test_an_incoming_message_that_is_stored_twice(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1")
    home.message("s1", "user", "please deploy", platform_message_id="77")
    home.message("s1", "user", "please deploy")
    home.message("s1", "assistant", "done")
    found = examine(tmp_path, NOW).findings[0]
    assert (found.kind.code, found.sessions, found.certainty) == ("inbound_twice", ("s1",), Certainty.LIKELY)


def test_a_person_may_say_the_same_twice(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1")
    home.message("s1", "user", "ok", platform_message_id="77")
    home.message("s1", "user", "ok", platform_message_id="78")
    assert wrong(tmp_path) == []


def test_numbers_that_are_used_twice(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1")
    home.message("s1", "user", "one", platform_message_id="77")
    home.message("s1", "user", "two", platform_message_id="77")
    home.message("s1", "tool", "a", tool_call_id="c", tool_name="x")
    home.message("s1", "tool", "b", tool_call_id="c", tool_name="x")
    home.db.execute("update sqlite_sequence set seq = 1")
    assert sorted(wrong(tmp_path)) == [
        ("message_ids_reused", ()),
        ("platform_id_reused", ("s1",)),
        ("tool_call_reused", ("s1",)),
    ]


def test_a_session_with_messages_from_before_its_beginning(tmp_path):
    home = HermesHome(tmp_path)
    home.session("s1", started_at=BEGAN_AT + 10 * 86_400)
    home.say("s1", "hello", "hi")
    assert wrong(tmp_path) == [("session_id_reused", ("s1",))]


# --- routing, ends, locks


def test_a_chat_that_is_routed_to_an_ended_session(tmp_path):
    home = HermesHome(tmp_path, "0.14.0")
    talk(home, chat=CHAT)
    home.rotate("s1", "s2", "sum")
    home.route(CHAT, "s1")
    assert wrong(tmp_path) == [("routing_to_ended", ("s1", "s2"))]


def test_a_rotation_in_the_log_is_an_error_if_the_chat_does_not_follow(tmp_path):
    home = HermesHome(tmp_path, "0.14.0")
    talk(home, chat=CHAT)
    home.rotate("s1", "s2", "sum")
    home.route(CHAT, "s1")
    home.log(
        "2026-02-02 03:00:00,100 INFO [s1] run_agent: context compression started: session=s1 messages=10 tokens=~9 m",
        "2026-02-02 03:00:09,100 INFO [s1] run_agent: context compression done: session=s2 messages=10->4 tokens=~3",
    )
    assert [kind for kind, _ in wrong(tmp_path)] == ["routing_to_ended", "rotation_broken"]
    home.route(CHAT, "s2")
    assert wrong(tmp_path) == []


def test_a_rotation_into_a_session_of_another_parent_is_broken(tmp_path):
    home = HermesHome(tmp_path, "0.14.0")
    talk(home)
    home.rotate("s1", "s2", "sum")
    home.db.execute("update sessions set parent_session_id = null where id = 's2'")
    home.log(
        "2026-02-02 03:00:00,100 INFO [s1] run_agent: context compression started: session=s1 messages=10 tokens=~9 m",
        "2026-02-02 03:00:09,100 INFO [s1] run_agent: context compression done: session=s2 messages=10->4 tokens=~3",
    )
    assert wrong(tmp_path) == [("ended_without_child", ("s1",)), ("rotation_broken", ("s1", "s2"))]
    home.db.execute("update sessions set parent_session_id = 's1' where id = 's2'")
    (found,) = info(tmp_path, "rotation")
    assert (found.severity, found.anomaly, found.sessions) == (Severity.INFO, "A", ("s1", "s2"))


def test_a_rotation_without_its_new_session_is_broken(tmp_path):
    home = HermesHome(tmp_path, "0.14.0")
    talk(home)
    home.end("s1", "compression")
    home.log(
        "2026-02-02 03:00:00,100 INFO [s1] run_agent: context compression started: session=s1 messages=10 tokens=~9 m",
        "2026-02-02 03:00:09,100 INFO [s1] run_agent: context compression done: session=s2 messages=10->4 tokens=~3",
    )
    assert [kind for kind, _ in wrong(tmp_path)] == ["ended_without_child", "rotation_broken"]


def test_the_table_differs_from_its_mirror(tmp_path):
    home = healthy(tmp_path)
    home.session("s8", CHAT)
    home.say("s8", "hello", "hi")
    home.route(CHAT, "s8", mirror=False)
    assert wrong(tmp_path) == [("mirror_differs", ("s1", "s8"))]


def test_an_entry_that_another_store_wrote_over(tmp_path):
    home = healthy(tmp_path)
    other = HermesChat(chat="9", user="9")
    home.session("s9", other)
    home.say("s9", "hello", "hi")
    found = [one for one in examine(tmp_path, NOW).findings if one.kind.code == "routing_lost"]
    assert [(one.sessions, one.certainty) for one in found] == [(("s9",), Certainty.SUSPECTED)]


def test_two_chats_on_one_session_and_a_chat_without_session(tmp_path):
    home = healthy(tmp_path)
    home.route(HermesChat(chat="9", user="9"), "s1")
    home.route(HermesChat(chat="10", user="10"), "nowhere")
    assert wrong(tmp_path) == [("routing_to_missing", ("nowhere",)), ("routing_shared", ("s1",))]


def test_a_lock_that_was_left_behind(tmp_path):
    home = healthy(tmp_path)
    home.lock("s1", holder=f"pid={os.getpid()}:tid=1", expires_at=NOW - 1)
    assert wrong(tmp_path) == [("stale_lock", ("s1",))]
    home.db.execute("update compression_locks set expires_at = ?", (NOW + 1,))
    assert wrong(tmp_path) == []


def test_finalised_twice_and_not_at_all(tmp_path):
    home = healthy(tmp_path)
    home.session("e1", HermesChat(chat="8", user="8"))
    home.say("e1", "hello", "hi")
    home.end("e1", "idle")
    for time in ("04:00:18", "04:04:51"):
        home.log(f"2026-03-25 {time},000 INFO gateway.run: Session expiry finalized for old", file="gateway.log")
    assert wrong(tmp_path) == [("finalised_twice", ("old",)), ("not_finalised", ("e1",))]


# --- search, file, memory


@pytest.mark.parametrize("release", [RELEASES[0], NEWEST])
def test_a_search_index_that_is_out_of_step(release, tmp_path):
    home = healthy(tmp_path, release)
    home.db.execute("delete from messages_fts where rowid = 2")
    home.db.execute("insert into messages_fts_trigram(rowid, content) values (9999, 'ghost')")
    assert [kind for kind, _ in wrong(tmp_path)] == ["search_out_of_step", "search_out_of_step"]


def test_notes_that_disappeared(tmp_path):
    home = healthy(tmp_path)
    done = json.dumps({"success": True})
    home.use_tool("c1", "m1", "memory", {"action": "add", "target": "memory", "content": "Likes tea."}, done)
    home.use_tool("c1", "m2", "memory", {"action": "add", "target": "memory", "content": "Moved away."}, done)
    home.use_tool("c1", "m3", "memory", {"action": "remove", "target": "memory", "old_text": "Moved"}, done)
    assert wrong(tmp_path) == [("memory_clobbered", ("c1",))]
    home.remember(memory=["Deploys on Fridays.", "Likes tea."])
    assert wrong(tmp_path) == []


@pytest.mark.parametrize("text", ["Deploys.\n§\n" + "x" * 3000, "Tea.\n§\n\n§\nMilk.", "Tea.\n§\n  Milk.  \n§\nAda."])
def test_a_memory_file_that_was_edited_by_hand(text, tmp_path):
    healthy(tmp_path)
    (tmp_path / "memories" / "MEMORY.md").write_text(text)
    assert wrong(tmp_path) == [("memory_drifted", ())]


def test_a_copy_that_hermes_kept_of_a_refused_memory_file(tmp_path):
    home = healthy(tmp_path)
    kept = tmp_path / "memories" / "MEMORY.md.bak.1770000000"
    kept.write_text("Deploys on Fridays.\n§\nThe door code is new.")
    found = [one for one in examine(tmp_path, NOW).findings if one.kind.code == "memory_drifted"]
    assert [one.certainty for one in found] == [Certainty.SUSPECTED]
    assert found[0].evidence.files == ("MEMORY.md.bak.1770000000: 'The door code is new.'",)
    home.remember(memory=["Deploys on Fridays.", "The door code is new."])
    assert wrong(tmp_path) == []


# --- the file and its versions


def info(folder, code):
    return [one for one in examine(folder, NOW).findings if one.kind.code == code]


def written_by(folder, version):
    """Let the header name a version of SQLite that changed the file last."""
    with (folder / "state.db").open("r+b") as opened:
        opened.seek(96)
        opened.write(version.to_bytes(4, "big"))


def test_a_version_of_sqlite_with_a_known_fault_is_named(tmp_path):
    healthy(tmp_path).close()
    written_by(tmp_path, 3_045_001)
    (found,) = info(tmp_path, "sqlite_hazard")
    assert found.what == "SQLite 3.45.1 last changed the database"
    written_by(tmp_path, 3_051_003)
    assert info(tmp_path, "sqlite_hazard") == []


def test_the_changes_that_a_newer_hermes_will_make_are_listed(tmp_path):
    healthy(tmp_path / "old", "0.16.0").close()
    healthy(tmp_path / "new").close()
    (found,) = info(tmp_path / "old", "migration_ahead")
    assert [row.partition(":")[0] for row in found.evidence.rows] == ["schema 17", "schema 19", "schema 22"]
    assert found.severity is Severity.INFO
    assert info(tmp_path / "new", "migration_ahead") == []


def test_words_that_are_not_text_are_read(tmp_path):
    home = healthy(tmp_path)
    home.db.execute("update messages set content = cast(x'6f6bff' as text) where id = 2")
    assert wrong(tmp_path) == []
    found = examine(tmp_path, NOW)
    assert found.records is not None
    assert found.records.messages[1].text == "ok\ufffd"


def test_every_kind_has_its_texts():
    for kind in KINDS.values():
        assert kind.title
        assert kind.means.endswith(".")
        assert kind.repair.rstrip().endswith(".")
