"""What the log says about compressions, turns and finalisations.

A compression is a `started` record and the `done` record that ends it. Two things looked alarming in the original
report. A: the two name different sessions; that is rotation. B: the bracket names a third session; the bracket shows
which session used the thread before, and is never cleared.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.hermes.doctor.log_lines import LogRecord

# A wrap may cut a number in two: the number that the word `tokens` follows is whole. It may also cut the arrow, whose
# second half then looks like the mark of a quotation.
STARTED = re.compile(
    r"context\s*compression\s*started:\s*session\s*=\s*(?P<session>[\w.-]+?)\s*messages\s*=\s*(?P<count>[\d,]+)"
    r"(?P<rest>\s*tokens)?"
)
DONE = re.compile(
    r"context\s*compression\s*done:\s*session\s*=\s*(?P<session>[\w.-]+?)\s*"
    r"messages\s*=\s*(?P<count>[\d,]+)\s*(?:[-\u2011]\s*(?:\\?>|&gt;)?|\u2192)\s*(?P<left>[\d,]+)"
    r"(?P<rest>\s*(?:rough_)?tokens)?"
)
TURN = re.compile(r"conversation turn: session=(?P<session>\S+) .*?platform=(?P<platform>\S*) .*?msg=(?P<message>.*)\Z")
TURN_ENDED = re.compile(r"Turn ended\b.*?\bsession=(?P<session>\S+)")
FINALISED = re.compile(r"Session expiry finalized for (?P<session>\S+)")
FLUSHED = re.compile(r"Session (?P<session>\S+) expired, flushing memories")
ID = re.compile(r"\d{8}_\d{6}_[0-9a-f]{6}(?:[0-9a-f]{2})?\Z")


@dataclass(frozen=True, slots=True)
class LoggedCompression:
    """One compression. `done` is None if the log has no end of it."""

    session: str
    count: int
    started: LogRecord
    done: LogRecord | None = None
    result: str = ""  # the session that the end names
    left: int = 0

    @property
    def records(self) -> tuple[LogRecord, ...]:
        return (self.started,) if self.done is None else (self.started, self.done)

    @property
    def changes_session(self) -> bool:
        """Anomaly A."""
        return self.done is not None and self.result != self.session

    @property
    def foreign_bracket(self) -> str:
        """Anomaly B: the session that the bracket names, if the compression is not about it."""
        named = {record.bracket for record in self.records} - {"", self.session, self.result}
        return min(named) if named else ""


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    session: str
    record: LogRecord
    message: str  # the beginning of the user's words; Hermes shortens them


@dataclass(frozen=True, slots=True)
class LogStory:
    """What the logs tell, in order of time."""

    runs: Sequence[LoggedCompression] = ()
    turns: Sequence[LoggedTurn] = ()
    finalised: Sequence[tuple[str, LogRecord]] = ()
    ended: Sequence[tuple[str, LogRecord]] = ()  # turns whose rows were written, by the session at their end

    def was_cut_off(self, turn: LoggedTurn, sessions: Collection[str]) -> bool:
        """Whether no record says that the turn ended; `sessions` are its session and those that continue it."""
        return not any(session in sessions and record.at >= turn.record.at for session, record in self.ended)

    def during(self, run: LoggedCompression) -> list[LoggedTurn]:
        """The turns of the compressed session that began while it was being summarised."""
        if run.done is None:
            return []
        begins, ends = run.started.at, run.done.at
        return [turn for turn in self.turns if turn.session == run.session and begins <= turn.record.at <= ends]


def read_story(records: Iterable[LogRecord]) -> LogStory:
    """Pair the beginnings and ends of compressions, and collect turns and finalisations."""
    runs: list[LoggedCompression] = []
    turns: list[LoggedTurn] = []
    finalised: list[tuple[str, LogRecord]] = []
    ended: list[tuple[str, LogRecord]] = []
    for record in records:
        if (found := _match(STARTED, record)) is not None:
            runs.append(LoggedCompression(found["session"], _number(found["count"]), record))
        elif (found := _match(DONE, record)) is not None:
            _finish(runs, record, found)
        elif (found := TURN.match(record.text)) is not None:
            turns.append(LoggedTurn(found["session"], record, _unquoted(found["message"])))
        elif (found := FINALISED.search(record.text) or FLUSHED.search(record.text)) is not None:
            finalised.append((found["session"], record))
        elif (found := TURN_ENDED.match(record.text)) is not None:
            ended.append((found["session"], record))
    return LogStory(tuple(runs), tuple(turns), tuple(finalised), tuple(ended))


def _match(pattern: "re.Pattern[str]", record: LogRecord) -> "re.Match[str] | None":
    """Of the two ways to undo a wrap, the one that gives a session id as Hermes makes them, and whole numbers."""
    found = [match for text in (record.text, record.joined) if (match := pattern.match(text)) is not None]
    return max(found, key=lambda one: (bool(ID.match(one["session"])), one["rest"] is not None), default=None)


def _finish(runs: list[LoggedCompression], record: LogRecord, found: "re.Match[str]") -> None:
    """Attach the end to its beginning: the same number of messages; the same session or thread first."""
    count, session = _number(found["count"]), found["session"]
    fits = [n for n, run in enumerate(runs) if run.done is None and run.count == count]
    if not fits:
        return

    def rank(n: int) -> tuple[bool, bool, int]:
        return runs[n].session == session, runs[n].started.bracket == record.bracket, n

    best = max(fits, key=rank)
    runs[best] = replace(runs[best], done=record, result=session, left=_number(found["left"]))


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
