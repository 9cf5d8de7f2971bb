"""The audit: proves from the records alone that compression kept its guarantees (R21-R24).

Rule 1: the audit reads only records: sessions, operations, summaries, counts of entries, and log lines if there are
        any. It uses no model, no message text and no running process.
Rule 2: each check is one sentence that is true or contradicted, and a contradiction names the session and the fact.
Rule 3: sessions may come in any order. Checks of a branch against its ancestors run after all sessions are read.

Limit: after a clock was set back, an operation may seem to have ended before it began.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.kernel.ids import SessionId
from holdfast.sessions.compression import COMPRESS, Operation, Summary, snapshot_name
from holdfast.sessions.session import Purpose, Session

BRANCH = "branch"  # the operation's kind
CHECKS: Mapping[str, str] = {
    "summary_has_operation": "every summary was made by one finished compression of its own session",
    "operation_has_summary": "every finished compression made exactly one summary",
    "operation_has_order": "no operation ended before it began",
    "one_at_a_time": "no two compressions of a session overlapped",
    "ranges_chain": "every summary continues where its base ends and covers only what existed",
    "numbers_gapless": "the snapshots of a session are numbered without a gap",
    "journal_whole": "no entry of a journal is missing",
    "lineage_recorded": "no session was made by compression, and every branch has its own record",
    "log_agrees": "start and end of a compression name the same session and operation in the log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """The records of one session, as the audit reads them."""

    session: Session
    operations: tuple[Operation, ...]
    summaries: tuple[Summary, ...]
    fork_n: int = 0
    entries: int = 0
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class Contradiction:
    check: str
    session: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    name: str
    promise: str
    examined: int
    contradictions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    sessions: int
    entries: int
    operations: int
    summaries: int
    log_lines: int | None
    checks: tuple[CheckResult, ...]
    first: Contradiction | None

    @property
    def ok(self) -> bool:
        return self.first is None


@dataclass(frozen=True, slots=True)
class AuditLine:
    """The facts about a session that its branches are checked against."""

    parent: SessionId | None
    fork_n: int
    ends: Mapping[int, int]  # covers_through of its own summaries, by number


@dataclass(slots=True)
class Audit:
    """Receives one session at a time, then the log if there is one; `report` gives the verdict."""

    _seen: Counter[str] = field(default_factory=Counter)
    _examined: Counter[str] = field(default_factory=Counter)
    _found: Counter[str] = field(default_factory=Counter)
    _first: Contradiction | None = None
    _lines: dict[SessionId, AuditLine] = field(default_factory=dict)
    _waiting: list[tuple[SessionId, Summary]] = field(default_factory=list)
    _sessions_of: dict[str, SessionId] = field(default_factory=dict)  # by compression operation
    _log_lines: int | None = None

    def add(self, facts: SessionFacts) -> None:
        session = facts.session
        self._seen.update(
            sessions=1, entries=facts.entries, operations=len(facts.operations), summaries=len(facts.summaries)
        )
        ends = {summary.n: summary.covers_through for summary in facts.summaries}
        self._lines[session.id] = AuditLine(session.parent, facts.fork_n, ends)
        self._waiting += [(session.id, summary) for summary in facts.summaries]
        self._sessions_of.update({op.id: session.id for op in facts.operations if op.kind == COMPRESS})
        self._judge("summary_has_operation", session.id, len(facts.summaries), unmade_summaries(facts))
        self._judge("operation_has_summary", session.id, len(facts.operations), fruitless_operations(facts))
        self._judge("operation_has_order", session.id, len(facts.operations), disordered_operations(facts))
        self._judge("one_at_a_time", session.id, len(compressions(facts)), overlaps(facts))
        self._judge("numbers_gapless", session.id, len(facts.summaries), gaps(facts))
        self._judge("journal_whole", session.id, facts.entries, holes(facts))
        self._judge("lineage_recorded", session.id, 1, unrecorded_lineage(facts))

    def add_log(self, lines: Iterable[Mapping[str, object]]) -> None:
        """Compare the log's compressions with each other and with the records. All sessions must be added before."""
        sessions_of = dict(self._sessions_of)
        self._log_lines = 0
        for line in lines:
            if line.get("event") not in {"compress.started", "compress.done"}:
                continue
            self._log_lines += 1
            operation, session = str(line.get("operation", "")), str(line.get("session", ""))
            known = sessions_of.setdefault(operation, SessionId(session))
            wrong = [f"{line['event']} of {operation} names {session}; it began in {known}"] if known != session else []
            nameless = [] if operation and session else [f"a line {line['event']} without session or operation"]
            self._judge("log_agrees", session, 1, wrong + nameless)

    def report(self) -> Report:
        for session, summary in self._waiting:
            self._judge("ranges_chain", session, 1, self._broken_range(session, summary))
        self._waiting.clear()
        checks = tuple(
            CheckResult(name=name, promise=promise, examined=self._examined[name], contradictions=self._found[name])
            for name, promise in CHECKS.items()
            if name != "log_agrees" or self._log_lines is not None
        )
        return Report(
            sessions=self._seen["sessions"],
            entries=self._seen["entries"],
            operations=self._seen["operations"],
            summaries=self._seen["summaries"],
            log_lines=self._log_lines,
            checks=checks,
            first=self._first,
        )

    def _judge(self, check: str, session: str, examined: int, wrong: Iterable[str]) -> None:
        self._examined[check] += examined
        for what in wrong:
            self._found[check] += 1
            self._first = self._first or Contradiction(check, session, what)

    def _broken_range(self, session: SessionId, summary: Summary) -> Iterator[str]:
        name = snapshot_name(session, summary.n)
        base_end = self._end_of(session, summary.base_n) if summary.base_n else 0
        if summary.base_n >= summary.n or base_end is None:
            yield f"{name} is built on summary {summary.base_n}, which does not exist"
        elif summary.covers_from != base_end + 1:
            yield f"{name} covers from {summary.covers_from}; its base ends at {base_end}"
        if not summary.covers_from <= summary.covers_through <= summary.head_seq:
            yield (f"{name} covers {summary.covers_from}..{summary.covers_through}, made at entry {summary.head_seq}")

    def _end_of(self, session: SessionId, n: int) -> int | None:
        """The last entry that summary `n` of this session covers; the summary may be an ancestor's."""
        at: SessionId | None = session
        for _ in range(len(self._lines)):  # no ancestry is longer than the number of sessions
            line = self._lines.get(at) if at else None
            if line is None:
                return None
            if n > line.fork_n:
                return line.ends.get(n)
            at = line.parent
        return None


# --- one session's records against each other ----------------------------------------------------------------------


def compressions(facts: SessionFacts) -> list[Operation]:
    """The compressions of a session, in the order of their start."""
    return sorted((op for op in facts.operations if op.kind == COMPRESS), key=lambda op: op.fence)


def unmade_summaries(facts: SessionFacts) -> Iterator[str]:
    operations = {op.id: op for op in facts.operations}
    for summary in facts.summaries:
        name = snapshot_name(summary.session, summary.n)
        operation = operations.get(summary.operation)
        if summary.session != facts.session.id:
            yield f"{name} is filed under {facts.session.id}"
        elif operation is None:
            yield f"{name} names operation {summary.operation}, which this session does not have"
        elif operation.session != summary.session:
            yield f"{name} was made by operation {operation.id} of the session {operation.session}"
        elif (operation.kind, operation.outcome) != (COMPRESS, "done"):
            yield f"{name} was made by operation {operation.id}, a {operation.kind} that ended {operation.outcome}"


def fruitless_operations(facts: SessionFacts) -> Iterator[str]:
    made = Counter(summary.operation for summary in facts.summaries)
    for operation in compressions(facts):
        expected = 1 if operation.outcome == "done" else 0
        if made[operation.id] != expected:
            yield f"operation {operation.id} ended {operation.outcome} and made {made[operation.id]} summaries"


def disordered_operations(facts: SessionFacts) -> Iterator[str]:
    for operation in facts.operations:
        if operation.ended_at is not None and operation.ended_at < operation.started_at:
            yield f"operation {operation.id} ended {operation.started_at - operation.ended_at} ms before it began"
        if (operation.ended_at is None) != (operation.outcome is None):
            yield f"operation {operation.id} has the outcome {operation.outcome} and the end {operation.ended_at}"


def overlaps(facts: SessionFacts) -> Iterator[str]:
    """Overlapping compressions. An abandoned operation is excluded: it ended with its process, at an unknown time."""
    kept = [op for op in compressions(facts) if op.outcome != "abandoned"]
    for earlier, later in pairwise(kept):
        if earlier.fence == later.fence or earlier.ended_at is None or earlier.ended_at > later.started_at:
            yield f"operation {later.id} began while {earlier.id} ran"


def gaps(facts: SessionFacts) -> Iterator[str]:
    numbers = [summary.n for summary in facts.summaries]
    expected = list(range(facts.fork_n + 1, facts.session.summaries + 1))
    if numbers != expected:
        yield f"there are snapshots {numbers}; there should be {expected}"


def holes(facts: SessionFacts) -> Iterator[str]:
    session = facts.session
    if facts.entries != facts.last_seq - session.fork_seq:
        yield f"{facts.entries} entries between {session.fork_seq} and {facts.last_seq}"
    if session.committed_seq > facts.last_seq:
        yield f"entry {session.committed_seq} is committed; the last one is {facts.last_seq}"
    for summary in facts.summaries:
        if summary.head_seq > facts.last_seq:
            yield f"snapshot {summary.n} was made at entry {summary.head_seq}; the last one is {facts.last_seq}"


def unrecorded_lineage(facts: SessionFacts) -> Iterator[str]:
    session = facts.session
    branches = sum(op.kind == BRANCH and op.outcome == "done" for op in facts.operations)
    if session.purpose is Purpose.COMPRESSION:
        yield "a compression made a session"
    if session.parent is not None and branches != 1:
        yield f"it descends from {session.parent} with {branches} branch records"
    if session.parent is None and branches:
        yield "it has a branch record and no parent"
