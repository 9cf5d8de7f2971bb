"""What Hindsight is sent: documents. Pure functions of the parcel, so that every attempt sends the same.

Rule 1: a unit is one document, whose id is made from the parcel's id; a note is one document, whose id is made from
        its words (a memory never holds a note twice, and a removal knows only the words that it removes).
Rule 2: a line begins with its time and speaker, and no line of what somebody said can begin like that: further
        lines of one text are indented. Nobody can put words into another's mouth.
Rule 3: what the server would strip (control characters, lone surrogates) is written visibly, so that the hash of
        what it keeps is the hash of what was sent.
Rule 4: tags and ids are written in safe characters only. The vendor's client does not quote tags in a query.
"""

import hashlib
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.kernel.ids import AgentName, DeliveryId, Instant, Principal, SessionId
from holdfast.memory.delivery import Line, MemoryNote, Parcel, SaidTurn
from holdfast.memory.naming import NamingInputs
from holdfast.memory.notes import Target
from holdfast.memory.visibility import SHARED, is_agent, is_group, person_of
from holdfast.providers.hindsight.naming import bank_of, escaped, fitted

RENDERER = "hindsight/2"
CONTENT_BYTES_MAX = 4_000_000
MODE = "replace"
_NAME_BYTES_MAX = 160
_NAMESPACE = uuid.UUID("6f1c1f6e-0c50-5d7e-9d3f-3a6f6e1f4f5b")  # ours for ever: operation ids are made in it
_STRIPPED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_INSTANT_MAX = 253_402_300_799_000  # the last second of the year 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    bank: str
    id: str
    content: str
    tags: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]
    at: str
    key: str  # the parcel's id

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content.encode()).hexdigest()

    @property
    def operation(self) -> str:
        """The idempotency key of the submission.

        The server does not compare what is submitted under a known id: it drops the second silently. So the content
        is part of the id; and the parcel, so that words which come back after they were replaced are written again.
        """
        return str(uuid.uuid5(_NAMESPACE, "\n".join((self.bank, self.id, MODE, self.sha256, self.key))))


def turns_document(parcel: Parcel, unit: DeliveryId) -> Document:
    """The turns of a parcel as the document of a unit: its own, or the one that it takes turns back from."""
    naming = parcel.naming
    return Document(
        bank=bank_of(parcel.place),
        id=unit_id(unit),
        content="\n".join(_turn(turn) for turn in parcel.turns),
        tags=_turn_tags(naming),
        metadata=_turn_metadata(parcel, unit),
        at=iso(parcel.turns[0].lines[0].at) if parcel.turns and parcel.turns[0].lines else iso(Instant(0)),
        key=parcel.id,
    )


def note_document(parcel: Parcel, note: MemoryNote) -> Document:
    agent = parcel.naming.agent
    metadata = {"agent": agent, "delivery": parcel.id, "target": note.target, "subject": note.scope, "seq": note.seq}
    return Document(
        bank=bank_of(parcel.place),
        id=note_id(agent, note.scope, note.target, note.text),
        content=visible(note.text),
        tags=_note_tags(agent, note),
        metadata=tuple((name, visible(str(value))) for name, value in metadata.items()),
        at=iso(note.at),
        key=parcel.id,
    )


# --- ids and tags ----------------------------------------------------------------------------------


def unit_id(unit: DeliveryId) -> str:
    return fitted(f"unit-{escaped(unit)}", _NAME_BYTES_MAX)


def note_id(agent: AgentName, subject: str, target: str, text: str) -> str:
    known = "\n".join(escaped(part) for part in (agent, subject, target, visible(text)))
    return f"note-{hashlib.sha256(known.encode()).hexdigest()[:40]}"


def tag(kind: str, *values: str) -> str:
    return ":".join((kind, *(fitted(escaped(value), _NAME_BYTES_MAX) for value in values)))


def session_tags(agent: AgentName, session: SessionId) -> tuple[str, ...]:
    return (tag("agent", agent), tag("session", session))


def person_tags(agent: AgentName, principal: Principal | str) -> tuple[str, ...]:
    return (tag("agent", agent), tag("user", principal))


def private_scope(agent: AgentName, principal: Principal | str) -> str:
    """What one person and the agent know. The agent is part of it: a bank may be shared."""
    return tag("scope:private", agent, principal)


def note_scope(agent: AgentName, scope: str) -> str:
    """A note of one scope of memory/visibility.py."""
    return tag("scope:note", agent, scope)


def note_tags(agent: AgentName, scope: str) -> list[tuple[str, ...]]:
    """The sets of tags by which the notes of a scope are found. The later ones are those of renderer 1: it kept no
    owner of shared notes, so these are found to be erased and never recalled."""
    if scope == SHARED:
        return [(note_scope(agent, scope),), (tag("scope:shared", agent),)]
    old = [(private_scope(agent, scope), tag("memory", target.value)) for target in Target]
    return [(note_scope(agent, scope),), *old]


def group_scope(agent: AgentName, address: str) -> str:
    """What was said in one group, or with one agent, for that chat."""
    return tag("scope:group", agent, address)


def spoken_scope(agent: AgentName, principal: Principal | str) -> str:
    """What one person said in groups, for that person alone."""
    return tag("scope:spoken", agent, principal)


def _turn_tags(naming: NamingInputs) -> tuple[str, ...]:
    agent, principal = naming.agent, naming.principal
    tags = [*session_tags(agent, naming.session), tag("user", principal)]
    tags += [tag("parent", naming.parent)] if naming.parent else []
    tags += [tag("chat", naming.address)] if naming.address else []
    if is_agent(principal):  # its words elsewhere are others'
        return (*tags, group_scope(agent, naming.address or naming.session))
    if is_group(naming.address):
        return (*tags, group_scope(agent, naming.address), spoken_scope(agent, principal))
    return (*tags, private_scope(agent, principal))


def _note_tags(agent: AgentName, note: MemoryNote) -> tuple[str, ...]:
    tags = (tag("agent", agent), tag("memory", note.target), note_scope(agent, note.scope))
    person = person_of(note.scope)
    return tags if person is None else (*tags, tag("user", person))


def _turn_metadata(parcel: Parcel, unit: DeliveryId) -> tuple[tuple[str, str], ...]:
    """All strings: the server keeps no others."""
    naming = parcel.naming
    parts = naming.address.split(":")
    pairs = {
        "session": naming.session,
        "parent": naming.parent or "",
        "from_turn": str(parcel.from_turn),
        "through_turn": str(parcel.through_turn),
        "agent": naming.agent,
        "platform": parts[2] if len(parts) > 3 else "",
        "user": naming.principal,
        "delivery": unit,
    }
    return tuple((name, visible(value)) for name, value in pairs.items() if value)


# --- words -----------------------------------------------------------------------------------------


def visible(text: str) -> str:
    """`text` without what the server would strip: its pictures, and U+FFFD for half a character."""
    return _STRIPPED.sub(_picture, text)


def iso(at: Instant) -> str:
    moment = datetime.fromtimestamp(min(max(at, 0), _INSTANT_MAX) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _turn(turn: SaidTurn) -> str:
    return "\n".join(_line(line) for line in turn.lines)


def _line(line: Line) -> str:
    speaker = " ".join(visible(line.speaker).split())
    text = "\n    ".join(visible(line.text).splitlines()) or "(nothing)"
    return f"[{iso(line.at)}] {speaker} ({visible(line.role)}): {text}"


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code >= 0xD800:
        return "\N{REPLACEMENT CHARACTER}"
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else chr(0x2400 + code)
