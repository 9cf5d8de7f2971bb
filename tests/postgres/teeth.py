"""What shows that a lock, a comparison or a name is needed: the situation and the two verbs that fail without it."""

LOCKS: dict[str, tuple[str, str, str]] = {}
COMPARISONS: dict[str, tuple[str, str, str]] = {}
NAMES: dict[str, tuple[str, str, str]] = {}
SHADOWED: dict[str, str] = {}
SOUND = [
    ("people", "link again", "unlink"),
    ("people", "link to the linked", "unlink"),
    ("people", "link", "link the other way"),
    ("moves", "a to b", "b to a"),
    ("moves", "a to c", "move a to c"),
    ("moves", "a to c", "b to c"),
    ("strangers", "admit", "unpair"),
    ("a_long_session", "delete", "claim lanes"),
    ("a_long_session", "summarise", "end"),
    ("recorded", "backfill", "forget the session"),
    ("nodes_at_their_end", "reap", "retire"),
]
