"""I16: no byte of a forgotten person's words is left in the database, its log or a provider; other words are unchanged.

Each text of such a history contains a number that occurs nowhere else, neither in ids nor by chance in pages. A text, a
summary and a recollection contain it as `m731000007`, and so does an answer or a message to another agent that repeats
it: none of these may remain. An answer refers to its message as `[731000007]`; answers in the turns of other people
stay, so there the second form may remain.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.memory.delivery import Parcel, SpokenLine
from holdfast.memory.forget import Forgetting
from holdfast.memory.lane import LaneKey
from holdfast.memory.quotation import INSIDE_CHARS_MIN
from holdfast.memory.visibility import AGENTS
from holdfast.testing.evidence import IN_TURN, Found
from holdfast.testing.rows import Row, Rows, body_of
from holdfast.testing.servers import Server
from holdfast.testing.workload import Say, mark_of, marks_in
from holdfast.turns.journal import AssistantSaid, Observed, UserSaid

SECRET = 731_000_000
WORD = re.compile(r"[a-z0-9]+")
JOURNALED = IN_TURN | {"observed", "held"}


def secretly(say: Say) -> Say:
    """The same message with a mark that cannot occur by chance."""
    return replace(say, text=say.text.replace(mark_of(say.n), mark_of(SECRET + say.n)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Where a person's words are at one moment: bytes of files, words at providers, rows."""

    person: str
    says: Sequence[Say]
    before: Rows  # at the time of the request
    after: Rows
    status: Forgetting
    files: Mapping[str, bytes]
    servers: Mapping[LaneKey, Server]

    @property
    def marks(self) -> list[str]:
        return [mark for say in self.says if say.sender == self.person for mark in marks_in(say.text)]


def nothing_is_left(traces: Traces) -> Found:
    """I16: neither the person's words nor the answers to them are in any file or at a provider that confirmed."""
    told, recalled = _told_to_others(traces), _recalled(traces)
    for mark in traces.marks:
        quoted = f"[{mark[1:]}]"
        for form in [mark] if quoted in told else [mark, quoted]:
            yield from (f"{where} has {form}" for where, text in _kept(traces) if form in text)
            files = [name for name, raw in traces.files.items() if form.encode() in raw]
            yield from (f"{name} has {form}" for name in files if form not in recalled)


def _kept(traces: Traces) -> Iterator[tuple[str, str]]:
    """The words at places of providers with no pending erasure."""
    owed = {(part.agent, part.provider, part.place) for part in traces.status.parts if not part.done}
    for lane, server in traces.servers.items():
        for place in sorted({parcel.place for parcel in server.effects}):
            if (lane.agent, lane.provider, place) not in owed:
                yield f"{lane.provider} of {lane.agent} at {place}", " ".join(server.words(place))


def _recalled(traces: Traces) -> str:
    """The recollections made since the request. They are swept only when the last provider has erased."""
    if traces.status.done:
        return ""
    since = traces.status.requested_at
    recalls = [row for row in traces.after["entry"] if row["kind"] == "recall" and row["at"] >= since]
    return " ".join(bytes(row["body"]).decode() for row in recalls)


def _told_to_others(traces: Traces) -> str:
    theirs = _own_turns(traces)
    bodies = [
        body_of(row)
        for row in traces.after["entry"]
        if row["kind"] == "assistant" and (row["session"], row["turn"]) not in theirs
    ]
    return " ".join(body.text for body in bodies if isinstance(body, AssistantSaid))


def _own_turns(traces: Traces) -> set[tuple[str, int]]:
    """Turns of the person, or in which only the person spoke."""
    heard: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in (*traces.before["entry"], *traces.after["entry"]):
        if row["kind"] == "user" and isinstance(body := body_of(row), UserSaid):
            heard[row["session"], row["turn"]].add(body.principal)
    owned = {(row["session"], row["n"]) for row in traces.after["turn"] if row["principal"] == traces.person}
    return owned | {turn for turn, speakers in heard.items() if speakers == {traces.person}}


def others_are_unchanged(traces: Traces) -> Found:
    """I16: the words of others keep their bytes, and so do answers to them that share no word with the forgotten text.
    Later messages of others are journaled, and their units are not erased."""
    deleted = {row["id"] for row in traces.after["session"] if row["state"] == "deleted"}
    now = {(row["session"], row["seq"]): row["body"] for row in traces.after["entry"]}
    theirs = _own_turns(traces)
    words = _words(traces, theirs)
    turns = _made(traces, words)
    for row in traces.before["entry"]:
        place = (row["session"], row["seq"])
        if row["session"] in deleted or now[place] == row["body"]:
            continue
        if _is_of_others(row, traces.person, theirs) and not _shares(
            turns.get((row["session"], row["turn"]), set()), words
        ):
            yield f"entry {row['seq']} of {row['session']} is no word of {traces.person}, and it changed"
    said = {body.message: body.text for row in traces.after["entry"] if (body := _heard(row)) is not None}
    texts = {say.event_id: say.text for say in traces.says if say.sender != traces.person}
    for row in traces.after["inbound"]:
        if row["state"] in JOURNALED and row["kind"] != "command" and row["session"] not in deleted:
            text = texts.get(row["event_id"])
            if text is not None and said.get(row["message"]) != text:
                yield f"{row['event_id']} of {row['principal']} is no longer journaled with its words"
    for lane, server in traces.servers.items():
        # The person's units are erased whole: a retried turn of another person was answered to them.
        # So are units of a deleted session: its answers can no longer be compared.
        erased = [parcel for parcel in server.erased if parcel.session not in deleted]
        foreign = [parcel for parcel in erased if parcel.principal != traces.person]
        for line in _innocent(foreign, words, turns):
            if line.speaker != traces.person:
                yield f"{lane.provider} was told to erase words of {line.speaker}"


def _words(traces: Traces, theirs: set[tuple[str, int]]) -> set[str]:
    """Every word of the person's messages, of the answers to them, and of messages between agents."""
    found = {word for say in traces.says if say.sender == traces.person for word in _split(say.text)}
    for row in (*traces.before["entry"], *traces.after["entry"]):
        passed_on = (body := _heard(row)) is not None and body.principal.startswith(AGENTS)
        if (row["session"], row["turn"]) in theirs or passed_on:
            found.update(_split(bytes(row["body"]).decode()))
    return found


def _made(traces: Traces, words: set[str]) -> dict[tuple[str, int], set[str]]:
    """The words of the agents, turn by turn, up to the time of the request.

    An entry that was written after `before` and blanked by the request may have held any of the words.
    """
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    known = {(row["session"], row["seq"]) for row in traces.before["entry"]}
    for row in traces.after["entry"]:
        if not row["body"] and (row["session"], row["seq"]) not in known:
            found[row["session"], row["turn"]].update(words)
    for row in traces.before["entry"]:
        body, _ = _heard(row), found[row["session"], row["turn"]]
        if body is None or body.principal.startswith(AGENTS):
            found[row["session"], row["turn"]].update(_split(bytes(row["body"]).decode()))
    return found


def _shares(made: set[str], words: set[str]) -> bool:
    """Whether a text repeats a word, alone or within a longer one: recollections are truncated within words."""
    return bool(made & words) or any(word in one for one in made for word in words if len(word) >= INSIDE_CHARS_MIN)


def _split(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def _innocent(
    parcels: Sequence[Parcel], words: set[str], made: Mapping[tuple[str, int], set[str]]
) -> Iterator[SpokenLine]:
    """The messages in units that repeat no such word, neither in an answer nor in an earlier step, undone or not."""
    told: dict[str, set[str]] = defaultdict(set)
    for parcel in parcels:
        for turn in parcel.turns:
            answers = [line.text for line in turn.lines if line.role == "assistant"]
            # Later words of an agent are unknown once they are blanked.
            steps = made.get((parcel.session, turn.n), words)
            told[parcel.of or parcel.id].update(*map(_split, answers), steps)
    for parcel in parcels:
        if not _shares(told[parcel.of or parcel.id], words):
            lines = [line for turn in parcel.turns for line in turn.lines]
            yield from (line for line in lines if line.role == "user" and not line.speaker.startswith(AGENTS))


def no_hash_is_left(traces: Traces) -> Found:
    """I16: no row of the person has a hash of its text, and the units of providers have none."""
    since = traces.status.requested_at
    buried = {row["message"] for row in traces.after["tombstone"]}
    before = {row["message"] for row in traces.before["inbound"]}
    for row in traces.after["inbound"]:
        is_earlier = row["at"] < since or row["message"] in before  # in the same millisecond it may be later
        is_theirs = row["principal"] == traces.person and is_earlier and row["message"] not in buried
        if is_theirs and bytes(row["body_hash"]):
            yield f"message {row['message']} still has a hash of its text"
    for row in traces.after["tombstone"]:
        if row["principal"] == traces.person and bytes(row["body_hash"]) and row["hash"] in _buried(traces):
            yield f"the tombstone of {row['message']} still has a hash of its text"
    for row in traces.after["delivery"]:
        if row["payload_hash"] is not None and row["state"] in {"delivered", "dropped"}:
            yield f"delivery {row['id']} still has a hash of what was sent"


def _buried(traces: Traces) -> set[bytes]:
    return {row["hash"] for row in traces.before["tombstone"]}


def _heard(row: Row) -> UserSaid | Observed | None:
    body = body_of(row) if row["kind"] in {"user", "observed"} else None
    return body if isinstance(body, UserSaid | Observed) else None


def _is_of_others(row: Row, person: str, theirs: set[tuple[str, int]]) -> bool:
    body = _heard(row)
    if body is not None:
        return body.principal != person and not body.principal.startswith(AGENTS)
    return row["kind"] == "assistant" and (row["session"], row["turn"]) not in theirs


def done_means_done(traces: Traces) -> Found:
    """I16: the request is done exactly when every erasure is delivered; one that needs an operator has a reason."""
    status = traces.status
    units = {row["id"]: row["state"] for row in traces.after["delivery"] if row["op"] == "erase"}
    open_ = sorted(id_ for id_, state in units.items() if state != "delivered")
    if status.done and open_:
        yield f"it is called done, and {', '.join(open_)} are not delivered"
    if not status.done and not open_:
        yield "every erasure is delivered, and it is not called done"
    if {part.delivery for part in status.parts} != set(units):
        yield f"it shows {len(status.parts)} parts of {len(units)} erasures"
    for part in status.parts:
        if not part.done and not (part.state.value == "parked" and part.reason):
            yield f"{part.delivery} is {part.state.value} at rest, without a reason"


CHECKS = (nothing_is_left, others_are_unchanged, no_hash_is_left, done_means_done)
