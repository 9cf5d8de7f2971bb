"""I9: the session of a chat changes only by what people say.

A small oracle replays each mailbox in the order of acceptance: every item runs in the session that the previous item
left live, and a command leaves the session that it asks for. Compression, takeovers and restarts have no effect on it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.sessions.command_rights import Rank
from holdfast.testing.checks_rights import may_change
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.lineage import NO_LIMIT, Lineage
from holdfast.testing.rows import Row
from holdfast.testing.workload import Say, verb_of

EXPIRY = frozenset({"idle", "daily"})  # causes of an end without a command
OPENING = frozenset({"new", "branch"})  # the commands that make a session


def sessions_switch_by_command_only(evidence: Evidence) -> Found:
    left_in = {row["message"]: row["session"] for row in evidence.rows["reply"]}
    texts = evidence.texts
    says = {sent.say.event_id: sent.say for sent in evidence.sent}
    resumed = _resumed_in(evidence, texts, left_in)
    expired = _expired(evidence)
    opened: Counter[str] = Counter({turn.session for turn in evidence.recorded if turn.turn is not None})
    live = {box["id"]: box["session_id"] for box in evidence.rows["mailbox"]}
    for mailbox, kept in evidence.rows.by("inbound", "mailbox").items():
        replay = Replay(mailbox, evidence.lineage, texts, says, left_in, resumed, expired, opened)
        for row in sorted(kept, key=lambda row: row["seq"]):
            if row["kind"] != "signal" and row["state"] != "refused":
                yield from replay.take(row)
        if live[mailbox] != replay.here and not (live[mailbox] is None and replay.is_left()):
            yield f"{mailbox} is in {live[mailbox]}; its last message left it in {replay.here}"
    for session in evidence.lineage.sessions:
        if opened[session] != 1:
            yield f"{session} was opened {opened[session]} times by what people said"


def _expired(evidence: Evidence) -> dict[str, list[int]]:
    """When each session was closed by expiry; its chat has no live session then."""
    found: dict[str, list[int]] = {}
    for row in evidence.rows["finalisation"]:
        if row["cause"] in EXPIRY and row["step"] in {"closed", "failed"}:
            found.setdefault(row["session"], []).append(row["ended_at"])
    return found


def _resumed_in(evidence: Evidence, texts: Mapping[str, str], left_in: Mapping[str, str | None]) -> dict[str, set[str]]:
    """Where each session was resumed: the mailbox in which it was live before has no live session then."""
    found: dict[str, set[str]] = {}
    for row in evidence.rows["inbound"]:
        session = left_in.get(row["message"])
        if row["state"] == "command" and session and verb_of(texts.get(row["event_id"], "")) == "resume":
            found.setdefault(session, set()).add(row["mailbox"])
    return found


@dataclass(slots=True)
class Replay:
    """One mailbox, item by item."""

    mailbox: str
    lineage: Lineage
    texts: Mapping[str, str]
    says: Mapping[str, Say]
    left_in: Mapping[str, str | None]
    resumed: Mapping[str, set[str]]
    expired: Mapping[str, list[int]]
    opened: Counter[str]
    here: str | None = None
    said_in: set[str] = field(default_factory=set)

    def is_taken(self) -> bool:
        """Whether another chat resumed the session that was live here."""
        return any(where != self.mailbox for where in self.resumed.get(self.here or "", ()))

    def is_left(self, at: int = NO_LIMIT) -> bool:
        """Whether the session that was live here no longer is: another chat resumed it, or it was closed by then.

        A message accepted before the close reopens the session instead (R31).
        """
        return self.is_taken() or any(ended <= at for ended in self.expired.get(self.here or "", ()))

    def take(self, row: Row) -> Found:
        if row["state"] == "command":
            yield from self._take_command(row)
        else:
            yield from self._take_message(row)

    def _take_message(self, row: Row) -> Found:
        found = row["session"]
        if found != self.here:
            if self.here is not None and not self.is_left(row["at"]):
                yield f"{row['event_id']} is in {found}; the session was {self.here}"
            self.opened[found] += 1
        self.here = found
        self.said_in.add(found)

    def _take_command(self, row: Row) -> Found:
        before, text = row["session"], self.texts.get(row["event_id"], "")
        if before != self.here and not (before is None and self.is_left(row["at"])):
            yield f"{row['event_id']} ran in {before}; the session was {self.here}"
        after = self.left_in.get(row["message"], before)
        if not self._is_right(verb_of(text), before, after) and not self._is_refused(row, before, after):
            yield f"{row['event_id']} ({text}) left {after}; it was {before}"
        if after is not None and after != before and verb_of(text) in OPENING:
            self.opened[after] += 1
        self.here = after

    def _is_right(self, verb: str, before: str | None, after: str | None) -> bool:
        match verb:
            case "new":
                return after is not None and (after != before or after not in self.said_in)
            case "branch":
                return after is None if before is None else self._row(after)["parent_id"] == before
            case "delete":  # the first one only asks for confirmation
                return after == before or (after is None and self._row(before)["state"] == "deleted")
            case "resume":
                return after is not None or before is None
            case _:
                return after == before

    def _is_refused(self, row: Row, before: str | None, after: str | None) -> bool:
        """Whether a command had no effect: its sender lacked the right, or the right could not be determined."""
        say = self.says.get(row["event_id"])
        return before == after and say is not None and (not may_change(say) or row["rank"] == Rank.UNKNOWN.value)

    def _row(self, session: str | None) -> Row:
        return self.lineage.sessions.get(session or "", {"parent_id": None, "state": None})
