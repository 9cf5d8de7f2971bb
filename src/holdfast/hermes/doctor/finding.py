"""What the doctor reports: the kinds of findings with their meaning, and one finding with its evidence.

The codes are stable, because people script against them. A finding that is only suspected is never repaired.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    ERROR = "error"  # words are lost, hidden from the model, or will be
    WARNING = "warning"  # something is wrong, and nothing was lost by it so far
    INFO = "info"  # normal, or worth knowing


class Certainty(Enum):
    CERTAIN = "certain"  # the rows themselves prove it
    LIKELY = "likely"  # the rows allow no other known explanation
    SUSPECTED = "suspected"  # there is a harmless explanation too


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One kind of finding: its usual severity, what it means to the user, and what a repair does."""

    code: str
    severity: Severity
    title: str
    means: str
    repair: str


NO_REPAIR = "None is needed."
BY_HAND = "No automatic repair: "
NOTHING_LEFT = "No repair is possible: no file of the home holds what is lost."


def _kinds(*rows: tuple[str, Severity, str, str, str]) -> Mapping[str, FindingKind]:
    return {row[0]: FindingKind(*row) for row in rows}


E, W, N = Severity.ERROR, Severity.WARNING, Severity.INFO

# ruff: noqa: E501 - a table of sentences
KINDS: Mapping[str, FindingKind] = _kinds(
    ("rotation", N, "A compression continued in a new session",
     "Normal: this version of Hermes ends the session at a compression and continues in a child.", NO_REPAIR),
    ("rotation_unverified", W, "A compression ended under another session id",
     "Ordinary rotation, if the database has the new session as a child of the old one. The database was not at hand.",
     BY_HAND + "run the doctor on the home itself."),
    ("rotation_broken", E, "A compression's new session is missing or not connected",
     "The agent continued in a session that the history or the chat does not lead to, so it answers without what was said before.",
     "The chat is routed to the newest session of the conversation; a new session without a row cannot be recovered."),
    ("stale_bracket", N, "A log line names another session in its bracket",
     "The bracket shows which session used the thread before. It is no evidence that two sessions were mixed.", NO_REPAIR),
    ("history_rewritten", W, "A compression replaced the history of a session",
     "Before 0.18, a compression by /compress or by hygiene deletes the rows of the session. Only the summary and the carried messages are left.",
     BY_HAND + "summarised messages stay summarised. The file sessions/session_<id>.json may still hold their words."),
    ("compression_unfinished", W, "A compression began and never ended",
     "Hermes was stopped while it summarised, or the log ends there.", NO_REPAIR),
    ("turn_lost", E, "A turn was deleted by a compression that did not cover it",
     "The message was answered while the history was being summarised. The summary does not contain it and its rows are gone.",
     "The rows are written again from sessions/session_<id>.json, behind the compressed history."),
    ("turn_not_stored", E, "A turn was answered and never stored",
     "Hermes was stopped between the answer and writing it to the database. Only the file sessions/session_<id>.json has the turn.",
     "The rows are written from the file, behind the history that the chat goes on with."),
    ("turn_archived_uncovered", E, "A turn was archived by a compression that did not cover it",
     "The message was answered while the history was being summarised. The agent no longer sees it, and no summary contains it.",
     "The rows are made active again, behind the compressed history."),
    ("turn_left_in_parent", E, "A turn stayed in a session that a compression ended",
     "The message was answered while the history was being summarised. The continuation does not contain it.",
     "The rows are moved to the continuation, behind the compressed history."),
    ("ended_without_child", E, "A session was ended by a compression and has no continuation",
     "Hermes was stopped between ending the session and creating its continuation. The conversation is closed and refuses new messages.",
     "The session is opened again."),
    ("empty_continuation", E, "A continuation has no messages",
     "Hermes was stopped before it wrote the compressed history. The agent goes on without any memory of the conversation.",
     "The parent is opened again, the chat is routed to it, and the empty session is ended."),
    ("incomplete_continuation", E, "A continuation has only a part of the compressed history",
     "Hermes was stopped while it wrote the compressed history. The agent goes on without the newest messages of the conversation.",
     "The parent is opened again, the chat is routed to it, and the incomplete session is ended. All its words are also in the parent."),
    ("forked_lineage", E, "A session has two live continuations",
     "Two agents compressed the same session. Each continuation lacks what the other one was told.",
     "The continuation that the chat is not routed to is ended. All its messages stay readable; they are not merged."),
    ("lineage_cycle", E, "Sessions are their own ancestors",
     "Following the lineage never ends, so resuming or listing the conversation fails.",
     "The oldest session of the cycle loses its parent."),
    ("parent_missing", E, "A session names a parent that does not exist",
     "The beginning of the conversation cannot be found from its continuation.",
     "The reference to the missing parent is removed."),
    ("orphan_messages", E, "Messages belong to no session",
     "The messages cannot be listed or resumed, because their session has no row.",
     "An ended session of that id is created, so that the messages can be read."),
    ("origin_missing", W, "A continuation does not know its chat",
     "After a restart the gateway cannot find the conversation of this chat, and begins a new one.",
     "Chat, user and key are copied from the parent."),
    ("rows_reinserted", W, "Messages of a session are stored twice",
     "The whole transcript was written again before a rotation. Searches show the messages twice.",
     "The second copies are hidden as undone messages are; no row is deleted."),
    ("inbound_twice", W, "An incoming message is stored twice",
     "The agent saw the same message two times.",
     "The second row is hidden where the schema can hide rows, if the two rows are certainly one message."),
    ("platform_id_reused", W, "A platform's message id stands for two messages",
     "A redelivered message cannot be recognised by this id.", BY_HAND + "both messages are kept."),
    ("tool_call_reused", W, "A tool call has two results",
     "Some models refuse a history with two results of one call.", BY_HAND + "both results are kept."),
    ("session_id_reused", W, "A session has messages from before its beginning",
     "The id may have been given to a second conversation, or the clock was changed.", BY_HAND + "the messages are kept."),
    ("message_ids_reused", W, "Message numbers will be given again",
     "Hermes orders a conversation by these numbers, so new messages would stand among old ones.",
     "The counter is set to the highest number."),
    ("not_finalised", W, "An expired session was not finalised",
     "The memory provider was not told that the session ended.", BY_HAND + "deliver its turns, for example with `holdfast hermes import`."),
    ("finalised_twice", W, "A session was finalised twice",
     "The memory provider was told twice, and may have extracted the same facts twice.", BY_HAND + "check the provider for duplicates."),
    ("finalised_without_turns", E, "A session was finalised, and the provider has none of its turns",
     "The session is marked as handed over, so Hermes will not deliver it any more.", BY_HAND + "deliver its turns, for example with `holdfast hermes import`."),
    ("turns_not_retained", E, "The memory provider does not have turns of a session",
     "What was said in these turns will not be recalled.", BY_HAND + "deliver the turns, for example with `holdfast hermes import`."),
    ("routing_to_ended", E, "A chat is routed to a session that has ended",
     "The next message of this chat goes to a closed session, or begins without history.",
     "The chat is routed to the newest session of the same conversation; an entry without one is removed."),
    ("routing_to_missing", W, "A chat is routed to a session that does not exist",
     "The next message of this chat begins a session without history.", BY_HAND + "Hermes creates the session with the next message."),
    ("routing_shared", W, "Two chats are routed to one session",
     "Each chat sees what was said in the other.", BY_HAND + "send /new in one of the chats."),
    ("routing_lost", W, "A live session of a chat is not in the routing table",
     "Another process may have written its own table over it. After a restart the chat may begin a new session.",
     "The entry is restored from sessions.json if it is there; otherwise nothing is changed."),
    ("mirror_differs", W, "sessions.json differs from the routing table",
     "A tool or an older Hermes that reads sessions.json follows another session than the gateway.",
     "sessions.json is written again from the table."),
    ("stale_lock", W, "A compression lock was left behind",
     "The session is not compressed until the lock expires; messages may fail because they are too long.",
     "The lock is removed."),
    ("search_out_of_step", W, "The search index differs from the messages",
     "Searches miss messages, or find messages that do not exist.",
     "Missing entries are added, and entries without a message are removed."),
    ("integrity", E, "The database fails SQLite's integrity check",
     "Pages or indexes are damaged. Hermes may fail at any message.",
     "Indexes are rebuilt. Damaged pages are not repaired: recover them with `sqlite3 state.db .recover`."),
    ("memory_drifted", W, "A memory file was changed by something else than Hermes",
     "Hermes refuses to change the file, or merges the foreign text into an entry and loses it with that entry.",
     BY_HAND + "put each note between lines with a single § ."),
    ("memory_clobbered", E, "Notes are missing from a memory file",
     "The notes were written to the file and no tool call removed them.",
     BY_HAND + "the evidence quotes the notes; add them again."),
    ("wal_left", N, "Changes are still in state.db-wal",
     "Hermes was stopped without closing the database, or runs. A copy of state.db alone lacks these changes.", NO_REPAIR),
    ("sqlite_hazard", N, "The SQLite that wrote the database has a known fault",
     "SQLite 3.7.0 to 3.51.2 can, rarely, lose changes when two processes write the log back at the same time.",
     BY_HAND + "run Hermes with a Python that has SQLite 3.51.3 or later."),
    ("hermes_running", N, "Hermes is running",
     "Findings about the newest turn may be work in progress.", NO_REPAIR),
    ("migration_ahead", N, "A newer Hermes will change the schema of the database",
     "Opening the database with a newer Hermes adds columns and tables, and makes equal titles unique. An older Hermes can no longer be relied on afterwards.", NO_REPAIR),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FindingEvidence:
    """Rows as `table id: what`, log lines as `file:line time text`, files as paths with what they hold."""

    rows: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


NO_EVIDENCE = FindingEvidence()


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesFinding:
    """One thing the doctor found; `anomaly` is the letter by which the original incident report knows it."""

    kind: FindingKind
    what: str
    sessions: tuple[str, ...] = ()
    certainty: Certainty = Certainty.CERTAIN
    severity: Severity = Severity.INFO
    evidence: FindingEvidence = NO_EVIDENCE
    begins: str = ""
    ends: str = ""
    anomaly: str = ""
    is_repairable: bool = True  # False if what a repair would need is gone

    @property
    def is_repaired(self) -> bool:
        """Whether `repair` acts on this finding."""
        unneeded = self.kind.repair == NO_REPAIR or self.kind.repair.startswith(BY_HAND)
        return self.is_repairable and not unneeded and self.certainty is not Certainty.SUSPECTED

    @property
    def repair(self) -> str:
        """What a repair does about this finding."""
        return self.kind.repair if self.is_repairable else NOTHING_LEFT


def finding(
    code: str,
    what: str,
    *sessions: str,
    certainty: Certainty = Certainty.CERTAIN,
    severity: Severity | None = None,
    evidence: FindingEvidence = NO_EVIDENCE,
    begins: str = "",
    ends: str = "",
    anomaly: str = "",
    is_repairable: bool = True,
) -> HermesFinding:
    """A finding of the kind with this code; its severity is the kind's unless another one is given."""
    kind = KINDS[code]
    return HermesFinding(
        kind=kind,
        what=what,
        sessions=sessions,
        certainty=certainty,
        severity=severity or kind.severity,
        evidence=evidence,
        begins=begins,
        ends=ends,
        anomaly=anomaly,
        is_repairable=is_repairable,
    )
