"""What shows that a lock, a comparison or a name is needed: the situation and the two verbs that fail without it.

`tests/postgres/test_interleaving.py` takes each away and expects a fault, and fails for one that stands in no table.
"""

from typing import TypeAlias

Pair: TypeAlias = tuple[str, str, str]  # a situation of pairs.py and two of its verbs

# `/*lock*/` and `/*skip locked*/`, by module and constant.
LOCKS: dict[str, Pair] = {
    "accept.FIND_MAILBOX": ("mail", "accept one", "accept two"),
    "access.BY_CODE": ("strangers", "deny", "unpair"),
    "access.KNOWN": ("strangers", "ask", "ask too"),
    "approvals.LOCK": ("asked", "approve", "approve here"),
    "backfill.LOCK_SESSION": ("an_open_turn", "commit", "backfill"),
    "commands.LIVE": ("overdue", "schedule", "new"),
    "cursors.CURSORS": ("carried_and_undone", "settle", "undo"),
    "cursors.LOCK_LANE": ("work", "undo", "claim"),
    "cursors.LOCK_SESSION": ("overdue", "schedule", "forget the session"),
    "cursors.STILL": ("carried_and_overdue", "settle", "schedule"),
    "delete.LOCK_LANE": ("work", "delete", "claim"),
    "drafts.FIND": ("drafted", "intend again", "note"),
    "erase.LOCK_LANE": ("work", "forget the session", "claim"),
    "fence.HOLD": ("an_open_turn", "resume", "retire"),
    "finish.CLAIM": ("ended", "claim", "claim elsewhere"),
    "finish.LIVE_IN": ("ending", "end", "resume elsewhere"),
    "finish.LOCK": ("finishing", "record", "retire"),
    "finish.SESSION": ("recorded", "end", "record"),
    "forget.LOCK_LIVE": ("an_open_turn", "forget the session", "commit"),
    "forget.LOCK_SESSION": ("recorded", "forget the session", "record"),
    "forget.SETTLED": ("forgotten", "sweep", "sweep too"),
    "identity.LINKED": ("people", "unlink", "unlink too"),
    "identity.LOCK_BOTH": ("people", "link again", "unlink"),
    "identity.LOCK_BOXES": ("moves", "a to c", "accept at c"),
    "lanes.FREE": ("work", "claim", "claim elsewhere"),
    "lanes.WAITING": ("put_off", "hurry", "hurry too"),
    "memory.HOLD": ("notes", "replace", "forget the person"),
    "nodes.CLAIM": ("mail", "claim", "claim elsewhere"),
    "nodes.DEAD": ("nodes_at_their_end", "reap", "renew"),
    "person.LOCK_MAILBOXES": ("an_open_turn", "forget the person", "commit"),
    "person.LOCK_MEMORY": ("notes", "forget the person", "replace"),
    "person.LOCK_SESSION": ("recorded", "forget the person", "record"),
    "reading.HOLD": ("attachments", "drop one", "drop four"),
    "record.SESSION": ("recorded", "record", "forget the session"),
    "replies.FIND": ("sent", "resend", "forget the person"),
    "settle.HOLD": ("carried", "settle", "retire"),
    "settle.LOCK_CURSOR": ("carried", "settle", "commit"),
    "summaries.HOLD_OPERATION": ("a_long_session", "summarise", "end"),
    "summaries.SESSION": ("a_long_session", "summarise", "forget the session"),
}

# Conditions of a change that compare what was read with what is there.
COMPARISONS: dict[str, Pair] = {
    "access.EXPIRE": ("decided", "another asks", "deny"),
    "commands.LEAVE_OTHER": ("ending", "resume elsewhere", "accept"),
    "commands.MOVE_HERE": ("left", "resume", "forget the session"),
    "delete.CANCEL": ("carried_and_undone", "delete", "settle"),
    "drafts.NOTE": ("drafted", "note late", "commit"),
    "drafts.RELEASE": ("drafted", "release late", "commit"),
    "drafts.WITHDRAW": ("drafted", "withdraw late", "commit"),
    "finish.ASK_ANEW": ("ended", "forget the person", "claim"),
    "finish.CLAIM": ("ended", "claim", "claim elsewhere"),
    "finish.REOPEN": ("recorded", "record", "end"),
    "forget.SCRUBBED": ("forgotten", "mark", "mark too"),
    "halt.IN_TURN": ("an_open_turn", "forget the session", "accept"),
    "halt.WAITING": ("an_open_turn", "forget the person", "accept"),
    "identity.REDIRECT_MAIL": ("moves", "a to c", "b to c"),
    "identity.REDIRECT_REPLIES": ("sent", "move", "resend"),
    "nodes.CLAIM": ("mail", "claim", "claim elsewhere"),
    "nodes.END": ("a_long_session", "retire", "end"),
    "nodes.END_ORPHANS": ("nodes_at_their_end", "reap", "release"),
    "nodes.END_OTHERS": ("nodes_at_their_end", "register alone", "release"),
    "nodes.RELEASE": ("a_lost_claim", "release the lost", "accept"),
    "reading.NOTE": ("attachments", "note read", "note read further"),
    "replies.SETTLE": ("sent", "settle", "settle otherwise"),
    "settle.WAKE": ("parked", "replay", "replay too"),
    "summaries.END": ("a_long_session", "summarise", "end"),
    "turns.FINISH_MESSAGES": ("an_open_turn", "commit", "accept"),
}

# Two that guard the same rows: without one the other still holds, without both a fault is found.
DOUBLE: dict[tuple[str, str], Pair] = {
    ("replies.HEADS", "replies.TAKE"): ("posted", "claim", "claim elsewhere"),
    ("approvals.LOCK", "approvals.DECIDE"): ("asked", "approve", "deny"),
}

# Verbs that take turns by a name (`Database.write(name=...)`).
NAMES: dict[str, Pair] = {
    "claim_mailbox": ("claims", "claim by name", "claim by name again"),
    "claim_mailboxes": ("claims", "claim several", "claim several again"),
    "claim_lanes": ("two_lanes", "claim by name", "claim by name again"),
    "claim_finalisation": ("ended", "claim by name", "claim by name again"),
    "claim_replies": ("posted", "claim", "claim again"),
    "move_chat": ("moves", "a to b", "b to a"),
}

# Those that no order of two verbs can miss, with the reason. They stay: some keep the order in which rows are locked.
SHADOWED: dict[str, str] = {
    "turns.SESSION": "fence.HOLD is taken first: the session is live in that mailbox, whose lock its writers take",
    "drafts.HOLD": "nothing that ends a turn reads drafts, so an intent beside it equals one before it",
    "drafts.STRAY": "a stray may be given to two; retracting it twice is harmless, and each gives it again anyway",
    "extract.HOLD_MEMORY": "apply_memory locks the same row and judges anew what it refuses",
    "accept.STOP": "it keeps the time of the first of two stops, and nothing else",
    "tokens.REVOKE": "it keeps the time of the first of two revocations, and nothing else",
    "backfill.ADVANCE": "the session's lock is held and no cursor exists: there is nothing to compare with",
    "cursors.ADVANCE": "the cursor is locked since its mark was read; a unit made twice breaks a unique key",
    "lanes.DUE_NOW": "it picks the head of a lane that is locked; nothing is compared",
    "record.ADVANCE": "record.SESSION is held since the number was read",
    "erase.DROP": "the lane is locked and the state was read under it",
    "settle.SETTLE": "the lane is locked and its fence is the claim's, so nobody else has settled the unit",
    "settle.REPLAY": "the lane is locked and the state was read under it",
    "settle.TAKEN_BACK": "a unit that is retracted was sent, and is delivered by the time its retraction is",
    "turns.TAKE": "mail is taken under the mailbox's lock by the one claim that stands; missing it is our bug",
    "person.VOID_EXTRACTION": "an extraction that has ended has no owner",
    "replies.HOLD_DOUBTFUL": "a reply in doubt that is not pending is being sent or over, and has no due head",
}

# Pairs that were not sound once, and others in which the same rows are met.
SOUND: list[Pair] = [
    ("people", "link again", "unlink"),
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
]
