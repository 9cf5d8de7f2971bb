"""The migration that counts speakers reads a filled store right: two people, their branches, observed talk."""

import re
from pathlib import Path

import apsw

from holdfast.store import schema

FILES = sorted(Path(schema.__file__).parent.glob("0*.sql"))
SESSION = """
insert into session (id, agent, principal, purpose, parent_id, state, last_seq, committed_seq, turns, summaries,
                     opened_at, active_at)
values (?, 'main', ?, 'conversation', ?, 'open', 0, 0, 0, 0, 0, 0)"""
TURN = """
insert into turn (session, n, phase, attempt, fence, lease_fence, place, principal, first_seq, last_seq, opened_at)
values (?, ?, 'committed', 1, 0, 0, 'p', ?, 1, 1, 0)"""
MAILBOX = "insert into mailbox (id, agent, address) values (?, 'main', ?)"
OBSERVED = """
insert into entry (session, seq, turn, kind, tokens, fence, lease_fence, at, body)
values (?, 1, 0, 'observed', 1, 0, 0, 0, x'7b7d')"""


def test_an_old_store_learns_who_spoke_with_others():
    db = apsw.Connection(":memory:")
    for file in FILES:
        if file.name.startswith("013"):
            sessions = [("one", "ada", None), ("two", "ada", None), ("child", "ada", "two"), ("heard", "ada", None)]
            sessions += [("grandchild", "ada", "child"), ("taken", "bob", "one"), ("own", "ada", "one")]
            db.executemany(SESSION, sessions)
            db.executemany(TURN, [("one", 1, "ada"), ("two", 1, "ada"), ("two", 2, "bob")])
            db.execute(OBSERVED, ("heard",))
        db.execute(re.sub(r"/\*\w+\*/", "", file.read_text(encoding="utf-8")))
    named = {row[0] for row in db.execute("select id from session where several = 1")}
    assert named == {"two", "child", "grandchild", "taken", "heard"}


def test_an_old_store_learns_which_chats_several_people_spoke_in():
    db = apsw.Connection(":memory:")
    for file in FILES:
        if file.name.startswith("019"):
            chats = {
                "alone": ["ada", "agent:ben"],
                "two": ["ada", "bob"],
                "linked": ["tg:1", "ada"],
                "agents": ["agent:x"],
            }
            for chat, speakers in chats.items():
                db.execute(MAILBOX, (chat, chat))
                db.execute(SESSION, (chat, speakers[0], None))
                db.executemany(TURN, [(chat, n, who) for n, who in enumerate(speakers, 1)])
                db.execute("update turn set mailbox = ? where session = ?", (chat, chat))
            db.execute("insert into identity (principal, person, at) values ('tg:1', 'ada', 0)")
        db.execute(re.sub(r"/\*\w+\*/", "", file.read_text(encoding="utf-8")))
    found = {row[0]: row[1:] for row in db.execute("select id, speaker, shared from mailbox")}
    assert found == {"alone": ("ada", 0), "two": ("ada", 1), "linked": ("ada", 0), "agents": (None, 0)}


def test_an_old_store_learns_which_linked_accounts_spoke_in_a_chat():
    db = apsw.Connection(":memory:")
    for file in FILES:
        if file.name.startswith("022"):
            chats = {"alone": ("ada", 0, ["ada", "agent:ben"]), "two": ("ada", 1, ["ada", "bob"])}
            chats["linked"] = ("ada", 0, ["ada", "bob", "bob", "cy"])
            for chat, (speaker, shared, speakers) in chats.items():
                db.execute(MAILBOX, (chat, chat))
                db.execute("update mailbox set speaker = ?, shared = ? where id = ?", (speaker, shared, chat))
                db.execute(SESSION, (chat, speaker, None))
                db.executemany(TURN, [(chat, n, who) for n, who in enumerate(speakers, 1)])
                db.execute("update turn set mailbox = ? where session = ?", (chat, chat))
        db.execute(re.sub(r"/\*\w+\*/", "", file.read_text(encoding="utf-8")))
    found = db.execute("select mailbox, principal from linked_speaker order by principal").fetchall()
    assert found == [("linked", "bob"), ("linked", "cy")]
