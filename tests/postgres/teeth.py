"""What shows that a lock, a comparison or a name is needed: the situation and the two verbs that fail without it.

`tests/postgres/test_interleaving.py` takes each away and expects a fault, and fails for one that stands in no table.
"""

from typing import TypeAlias

Pair: TypeAlias = tuple[str, str, str]  # a situation of pairs.py, phantoms.py or repeats.py and two of its verbs

# `/*lock*/`, `/*share*/` and `/*skip locked*/`, by module and constant.
LOCKS: dict[str, Pair] = {
    "accept_sql.FIND_MAILBOX": ("mail", "accept one", "accept two"),
    "access_sql.BY_CODE": ("strangers", "deny", "unpair"),
    "access_sql.KNOWN": ("strangers", "ask", "ask too"),
    "agent_lock_sql.HOLD": ("notes", "about somebody", "forget the person"),
    "agent_lock_sql.SHARE": ("notes", "about somebody", "forget the person"),
    "agent_pause_sql.HOLD_MAILBOXES": ("waiting", "pause", "open"),
    "approval_sql.LOCK": ("asked", "approve", "approve here"),
    "command_sql.LIVE": ("overdue", "schedule", "new"),
    "cursor_sql.CURSORS": ("carried_and_undone", "settle", "undo"),
    "cursor_sql.LOCK_LANE": ("work", "undo", "claim"),
    "cursor_sql.LOCK_SESSION": ("overdue", "schedule", "forget the session"),
    "cursor_sql.STILL": ("carried_and_overdue", "settle", "schedule"),
    "session_sql.LOCK_LANE": ("work", "delete", "claim"),
    "session_sql.LOCK_LINE": ("branched", "forget the session", "summarise the branch"),
    "draft_sql.FIND": ("drafted", "intend again", "note"),
    "draft_sql.HOLD": ("about_to_draft", "intend", "answer"),
    "draft_sql.STRAY": ("stray", "find strays", "find strays too"),
    "forget_sql.LOCK_LANE": ("work", "forget the session", "claim"),
    "turn_sql.HOLD": ("an_open_turn", "resume", "retire"),
    "finalisation_sql.CLAIM": ("ended", "claim", "claim elsewhere"),
    "finalisation_sql.LIVE_IN": ("ending", "end", "resume elsewhere"),
    "finalisation_sql.LOCK": ("finishing", "record", "retire"),
    "finalisation_sql.SESSION": ("recorded", "end", "record"),
    "forget_sql.LOCK_LIVE": ("an_open_turn", "forget the session", "commit"),
    "forget_sql.SETTLED": ("forgotten", "sweep", "sweep too"),
    "identity_sql.LINKED": ("people", "unlink", "unlink too"),
    "identity_sql.LOCK_BOTH": ("people", "link again", "unlink"),
    "identity_sql.LOCK_BOX": ("moves", "a to d", "accept at a"),
    "identity_sql.LOCK_BOXES": ("moves", "a to c", "accept at c"),
    "lane_sql.FREE": ("work", "claim", "claim elsewhere"),
    "lane_sql.HOLD": ("carried", "settle", "retire"),
    "lane_sql.LOCK_CURSOR": ("carried", "settle", "commit"),
    "lane_sql.WAITING": ("put_off", "hurry", "hurry too"),
    "notes_sql.CLAIMED": ("a_repeated_word", "note", "forget the person"),
    "notes_sql.HOLD": ("notes", "replace", "forget the person"),
    "mailbox_sql.CLAIM": ("mail", "claim", "claim elsewhere"),
    "node_sql.DEAD": ("nodes_at_their_end", "reap", "renew"),
    "forget_person_sql.LOCK_MEMORY": ("notes", "forget the person", "replace"),
    "provenance_sql.LOCK_MAILBOXES": ("an_open_turn", "forget the person", "commit"),
    "provenance_sql.LOCK_SESSION": ("recorded", "forget the person", "record"),
    "attachment_sql.HOLD": ("attachments", "drop one", "drop four"),
    "record_sql.LOCK": ("recorded", "record", "forget the session"),
    "replay_sql.HOLD": ("parked", "replay", "replay too"),
    "replay_sql.LOCK_SESSION": ("an_open_turn", "commit", "backfill"),
    "repair_sql.HOLD_MAILBOX": ("waiting", "give up", "open"),
    "repair_sql.LOCKED_REPLY": ("failed", "send again", "resend"),
    "repair_sql.LOCK_CURSOR": ("undecided", "give up", "commit"),
    "reply_sql.FIND": ("sent", "resend", "forget the person"),
    "summary_sql.HOLD_OPERATION": ("a_long_session", "summarise", "end"),
    "summary_sql.SESSION": ("a_long_session", "summarise", "forget the session"),
}

# Conditions of a change that compare what was read with what is there.
COMPARISONS: dict[str, Pair] = {
    "accept_sql.STOP": ("stopped", "stop", "commit"),
    "access_sql.EXPIRE": ("decided", "another asks", "deny"),
    "command_sql.LEAVE_OTHER": ("ending", "resume elsewhere", "accept"),
    "session_sql.CANCEL": ("carried_and_undone", "delete", "settle"),
    "decided_sql.TAKEN_BACK": ("doubtfully_undone", "settle as arrived", "replay"),
    "draft_sql.NOTE": ("drafted", "note late", "commit"),
    "draft_sql.RELEASE": ("drafted", "release late", "commit"),
    "draft_sql.WITHDRAW": ("drafted", "withdraw late", "commit"),
    "finalisation_sql.ASK_ANEW": ("ended", "forget the person", "claim"),
    "finalisation_sql.CLAIM": ("ended", "claim", "claim elsewhere"),
    "finalisation_sql.REOPEN": ("ending", "end", "resume elsewhere"),
    "forget_sql.SCRUBBED": ("forgotten", "mark", "mark too"),
    "forget_person_sql.IN_TURN": ("an_open_turn", "forget the session", "accept"),
    "forget_person_sql.LETTER": ("a_letter_that_waits", "forget the person", "open"),
    "forget_person_sql.WAITING": ("an_open_turn", "forget the person", "accept"),
    "identity_sql.REDIRECT_MAIL": ("moves", "a to c", "b to c"),
    "identity_sql.REDIRECT_REPLIES": ("sent", "move", "resend"),
    "lane_sql.DUE_NOW": ("put_off", "hurry", "claim"),
    "mailbox_sql.CLAIM": ("mail", "claim", "claim elsewhere"),
    "node_sql.END": ("a_long_session", "retire", "end"),
    "node_sql.END_ORPHANS": ("nodes_at_their_end", "reap", "release"),
    "node_sql.END_OTHERS": ("nodes_at_their_end", "register alone", "release"),
    "mailbox_sql.RELEASE": ("a_lost_claim", "release the lost", "accept"),
    "attachment_sql.NOTE": ("attachments", "note read", "note read further"),
    "reply_sql.HOLD_DOUBTFUL": ("doubtful", "claim elsewhere", "claim again"),
    "reply_sql.SETTLE": ("sent", "settle", "settle otherwise"),
    "lane_sql.TAKEN_BACK": ("parked_and_undone", "settle", "replay"),
    "replay_sql.WAKE": ("parked", "replay", "replay too"),
    "summary_sql.END": ("a_long_session", "summarise", "end"),
    "access_token_sql.END_LOGIN": ("logged_out", "end", "end some"),
    "access_token_sql.END_LOGINS": ("logged_out", "end", "end some"),
    "access_token_sql.REVOKE": ("revoked", "revoke", "revoke too"),
    "turn_sql.FINISH_MESSAGES": ("an_open_turn", "commit", "accept"),
    "turn_sql.TAKE": ("overheard", "open", "observe"),
}

# Two that guard the same rows: without one the other still holds, without both a fault is found.
DOUBLE: dict[tuple[str, str], Pair] = {
    ("reply_sql.HEADS", "reply_sql.TAKE"): ("posted", "claim", "claim elsewhere"),
    ("approval_sql.LOCK", "approval_sql.DECIDE"): ("asked", "approve", "deny"),
}

# Comparisons of what the verb itself reads before, under a lock that excludes every other change of it. They would show
# a mistake of the verb, not of an order: without one of them the lock still holds, and a test shows this with the pair.
HELD: dict[str, Pair] = {
    # The lane is held, and every change of a parked delivery is made by a verb that holds its lane.
    "replay_sql.REPLAY": ("parked", "replay", "replay too"),
    # The mailbox is held. (Only if the chat moves between reading the mailbox and holding it, and a turn begins at its
    # new address, does the comparison meet another state. These are three verbs, and two are played here.)
    "repair_sql.INTERRUPT": ("waiting", "give up", "open"),
}

# Comparisons of verbs that run only in a store that nothing serves: they find rows that are wrong, and meet no other
# verb. By statement, so that a new one needs a reason too.
DOCTOR = "the doctor repairs only a data folder (SQLite), under its owner lock: runtime/doctor.py"
RESTORED = "a restored store is settled before anything serves it: runtime/backups.py"
IMPORTED = "an export is imported by a command of its own, into a store that nothing serves: runtime/transfer.py"
UNSERVED: dict[str, str] = {
    "store_repair_sql.CUT_OFF_REPLIES": DOCTOR,
    "store_repair_sql.EMPTY": DOCTOR,
    "store_repair_sql.LANES_DUE": DOCTOR,
    "store_repair_sql.LANES_MISSING": DOCTOR,
    "store_repair_sql.LEAVE_TURN": DOCTOR,
    "store_repair_sql.PARK": DOCTOR,
    "store_repair_sql.READY": DOCTOR,
    "store_repair_sql.RECOUNT": DOCTOR,
    "store_repair_sql.SCHEDULE_AGAIN": DOCTOR,
    "store_repair_sql.SETTLE_AGAIN": DOCTOR,
    "store_repair_sql.SETTLE_MAIL": DOCTOR,
    "restored_sql.DOUBT_DELIVERIES": RESTORED,
    "restored_sql.DOUBT_REPLIES": RESTORED,
    "import_sql.LANES_DUE": IMPORTED,
    "import_sql.LANES_MISSING": IMPORTED,
}

# Verbs that take turns by a name (`Database.write(name=...)`).
NAMES: dict[str, Pair] = {
    "claim_mailbox": ("claims", "claim by name", "claim by name again"),
    "claim_mailboxes": ("claims", "claim several", "claim several again"),
    "claim_work": ("claims", "claim work", "claim work again"),
    "claim_lanes": ("two_lanes", "claim by name", "claim by name again"),
    "claim_finalisation": ("ended", "claim by name", "claim by name again"),
    "claim_replies": ("posted", "claim", "claim again"),
    "move_chat": ("moves", "a to b", "b to a"),
}

# Pairs that were not sound once, and others in which the same rows are met.
SOUND: list[Pair] = [
    ("people", "link again", "unlink"),
    ("people", "link as before", "unlink"),
    ("people", "link", "link as asked"),
    ("people", "link to the linked", "unlink"),
    ("people", "link", "link the other way"),
    ("people", "link a chain", "link"),
    ("moves", "a to b", "b to a"),
    ("moves", "a to c", "move a to c"),
    ("moves", "a to d", "accept at d"),
    ("strangers", "admit", "unpair"),
    ("strangers", "admit", "deny"),
    ("recorded", "record", "record again"),
    ("recorded", "record", "record too"),
    ("recorded", "backfill", "backfill too"),
    ("recorded", "backfill", "forget the session"),
    ("nodes_at_their_end", "reap", "retire"),
    ("two_operations", "begin", "begin too"),
    ("mail", "accept one", "accept one again"),
    ("mail", "accept at a new place", "accept there too"),
    ("mail", "accept one with little room", "accept with little room"),
    ("a_long_session", "undo", "summarise"),
    ("closing", "close", "accept"),
    ("closing", "close", "resume elsewhere"),
    ("ending", "end", "accept"),
    ("parked", "replay", "undo"),
    ("attachments", "drop one", "bring it again"),
    ("attachments", "drop both", "drop one"),
    ("applying", "apply", "remove"),
    ("applying", "apply", "forget the person"),
    ("recorded", "forget the session", "record"),
    ("nodes_at_their_end", "reap", "register alone"),
    ("nodes_at_their_end", "register alone", "retire"),
    ("left", "resume", "forget the session"),
    ("newcomers", "accept", "forget the person"),
    ("newcomers", "accept a picture", "forget the person everywhere"),
    ("newcomers", "accept a stop", "forget the person"),
    ("newcomers", "ask and speak", "forget the person"),
    ("newcomers", "note", "forget the person"),
    ("newcomers", "undo a note", "forget the person"),
    ("newcomers", "link", "forget the person everywhere"),
    ("guests", "record", "forget the person"),
    ("guests", "record a quotation", "forget the person"),
    ("guests", "record elsewhere", "forget the person everywhere"),
    ("branched", "branch again", "delete"),
    ("branched", "branch again", "forget the session"),
    ("branched", "delete", "summarise the branch"),
    ("branched", "forget the person", "summarise the branch"),
    ("a_letter", "hand over", "forget the person"),
    ("a_letter_that_waits", "hand over", "forget the person"),
    ("a_repeated_word", "answer", "forget the person"),
    ("a_repeated_word", "step", "forget the person"),
    ("branches_at_rest", "forget the session", "resume the parent"),
    ("branches_at_rest", "forget the session", "summarise the branch"),
    ("overdue_branches", "schedule", "delete"),
    ("replayed", "replay", "settle"),
    ("undecided", "give up", "claim"),
    ("undecided", "settle as arrived", "claim"),
    ("undecided", "settle as arrived", "commit"),
    ("undecided", "give up", "settle as arrived"),
    ("doubtfully_undone", "replay by repair", "settle as arrived"),
    ("doubtfully_undone", "replay by repair", "replay"),
    ("failed", "give up", "resend"),
    ("failed", "give up", "send again"),
    ("failed", "give up", "forget the person"),
    ("waiting", "give up", "give up too"),
    ("waiting", "give up", "forget the person"),
    ("waiting", "pause", "pause too"),
    ("waiting", "pause", "forget the person"),
    ("waiting", "pause", "give up"),
]
