"""What the doctor of the store reports: the kinds of findings with their meaning and repair, and a finding's evidence.

The codes are stable, because people script against them. A kind without a repair needs a person: the sentence says what
to do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.ids import Instant


class FaultGravity(Enum):
    ERROR = "error"  # words are lost, or wait for ever
    WARNING = "warning"  # something is wrong, and nothing is lost by it so far


@dataclass(frozen=True, slots=True)
class StoreFault:
    code: str
    gravity: FaultGravity
    title: str
    means: str
    repair: str  # what `--repair` does, or what a person has to do
    is_repairable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEvidence:
    """One row or file that shows the fault."""

    subject: str
    what: str = ""
    since: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFinding:
    fault: StoreFault
    evidence: Sequence[FaultEvidence]
    is_cut: bool = False  # there is more evidence than is listed


def _faults(*found: StoreFault) -> Mapping[str, StoreFault]:
    return {one.code: one for one in found}


E, W = FaultGravity.ERROR, FaultGravity.WARNING
# In the order in which they are reported and repaired.
FAULTS: Mapping[str, StoreFault] = _faults(
    StoreFault(
        "store_unreadable",
        E,
        "The store cannot be read",
        "The file is no database, or its first page is damaged or encrypted with another key.",
        "By hand: keep the file, and restore a backup with `holdfast restore`.",
        is_repairable=False,
    ),
    StoreFault(
        "pages_damaged",
        E,
        "Pages of the store are damaged",
        "What is on them cannot be read. The disk or the memory of the machine is at fault, or the file was changed.",
        "By hand: restore a backup, and run `sqlite3 copy.db .recover` on a copy for what the backup does not have.",
        is_repairable=False,
    ),
    StoreFault(
        "index_damaged",
        E,
        "An index of the store is damaged",
        "The rows are whole, but some are not found, or are found where they are not.",
        "The index is built again from the rows.",
    ),
    StoreFault(
        "journal_gap",
        E,
        "A journal has a gap",
        "Entries or turns of a session are missing. The agent goes on without them.",
        "By hand: restore a backup that has them.",
        is_repairable=False,
    ),
    StoreFault(
        "trail_gap",
        E,
        "The audit trail has a gap",
        "A row was removed by hand, or its head was changed.",
        "By hand: `holdfast audit actions --verify` names the row. It is not repaired, because that would hide it.",
        is_repairable=False,
    ),
    StoreFault(
        "message_stranded",
        E,
        "A message belongs to a turn that is not open",
        "No turn will answer the message.",
        "It gets the state that its turn ended with; without such a turn it waits again, and a new one answers it.",
    ),
    StoreFault(
        "attachment_missing",
        E,
        "The content of an attachment is missing",
        "A message names an attachment whose bytes are not in the store.",
        "By hand: restore a backup that has them. The message keeps the name of the attachment.",
        is_repairable=False,
    ),
    StoreFault(
        "node_dead",
        W,
        "A process left its lease behind",
        "The process ended without a word. Another one ends the lease when it starts.",
        "The lease is ended.",
    ),
    StoreFault(
        "claim_orphaned",
        W,
        "Work is claimed by a process that is gone",
        "Nobody goes on with the work until a process starts and takes it over.",
        "The claim is voided, and its fence grows: a late write of the former process is refused.",
    ),
    StoreFault(
        "reply_attempting",
        W,
        "A reply was left while it was being sent",
        "It may have been posted. Replies of the same chat wait behind it.",
        "It is sent once more if its outcome was never in doubt before, and is uncertain otherwise.",
    ),
    StoreFault(
        "lane_blocked",
        E,
        "A delivery blocks its lane",
        "The provider fails on this delivery and takes others, and deliveries wait behind it.",
        "The delivery is parked, and the lane goes on. `holdfast replay` tries it again.",
    ),
    StoreFault(
        "lane_asleep",
        E,
        "Deliveries wait on a lane that is never due",
        "Nothing would ever send them.",
        "The lane is due at once.",
    ),
    StoreFault(
        "mailbox_asleep",
        E,
        "Messages wait in a mailbox that is never ready",
        "Nothing would ever answer them.",
        "The mailbox is ready at once.",
    ),
    StoreFault(
        "mailbox_miscounted",
        W,
        "A mailbox counts its messages wrongly",
        "It may refuse messages as full, or fall asleep with messages in it.",
        "The messages are counted again.",
    ),
    StoreFault(
        "cursor_ahead",
        E,
        "A cursor is ahead of its receipts",
        "It counts deliveries as settled that are not, or turns as scheduled that no delivery has.",
        "It is set back to what is proved. Turns without a delivery are scheduled, and nothing is delivered twice.",
    ),
    StoreFault(
        "attachment_orphaned",
        W,
        "Bytes of attachments belong to no message",
        "They take space, and may be words that were to be forgotten.",
        "They are deleted.",
    ),
    StoreFault(
        "memory_index_damaged",
        W,
        "The search index of an agent is damaged",
        "Recall finds less or nothing. The journal has everything that was in it.",
        "It is set aside, and the next start fills a new one from the journal.",
    ),
    StoreFault(
        "wal_left",
        W,
        "Changes are still in the write-ahead log",
        "The last process did not close the store. Nothing is lost, but a copy of holdfast.db alone lacks them.",
        "They are written into holdfast.db.",
    ),
)


def ordered(found: Mapping[str, Sequence[FaultEvidence]], cut: frozenset[str] = frozenset()) -> list[StoreFinding]:
    """The findings, in the order of the table."""
    return [
        StoreFinding(fault=fault, evidence=found[code], is_cut=code in cut)
        for code, fault in FAULTS.items()
        if found.get(code)
    ]
