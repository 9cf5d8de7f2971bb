"""Documents for Hindsight: pure functions of the parcel, so that every attempt sends the same document.

Rule 1: a unit is one document, whose id is made from the parcel's id; a note is one document, whose id is made from
        its text (a memory never holds a note twice, and a removal knows only the text that it removes).
Rule 2: a line begins with its time and speaker, and further lines of one text are indented, so no speaker can imitate
        another speaker's line.
Rule 3: characters that the server would strip (control characters, lone surrogates) are replaced by visible ones, so
        that the hash of the stored content equals the hash of the sent content.
Rule 4: tags and ids use safe characters only. The vendor's client does not quote tags in a query.
"""

import hashlib
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.kernel.ids import AgentName, DeliveryId, Instant, SessionId
from holdfast.memory.delivery import MemoryNote, NamingInputs, Parcel, SpokenLine
from holdfast.memory.notes import Target
from holdfast.memory.visibility import SHARED, is_agent, is_group, person_of
from holdfast.providers.hindsight.naming import bank_of, escaped, fitted

RENDERER = "hindsight/2"
CONTENT_BYTES_MAX = 4_000_000
MODE = "replace"
_NAME_BYTES_MAX = 160
_NAMESPACE = uuid.UUID("6f1c1f6e-0c50-5d7e-9d3f-3a6f6e1f4f5b")  # permanent: operation ids are made in it
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

        The server silently drops a second submission under a known id, without comparing the content. So the content
        is part of the id; and so is the parcel, so that a text that comes back after a replacement is written again.
        """
        return str(uuid.uuid5(_NAMESPACE, "\n".join((self.bank, self.id, MODE, self.sha256, self.key))))


def turns_document(parcel: Parcel, unit: DeliveryId) -> Document:
    """The turns of a parcel as the document of a unit: its own, or the one that it retracts turns from."""
    naming = parcel.naming
    return Document(
        bank=bank_of(parcel.place),
        id=unit_id(unit),
        content="\n".join("\n".join(_line(line) for line in turn.lines) for turn in parcel.turns),
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


def scope_tag(kind: str, agent: AgentName, name: str) -> str:
    """The tag of a scope that may see a document. It names the agent, because agents may share a bank.

    The kinds: `private` for private turns of one person, `spoken` for one person's turns in groups, which that person
    alone may see, `group` for turns of one group or with one agent, which that chat may see, and `note` for notes of
    one scope of memory/visibility.py.
    """
    return tag(f"scope:{kind}", agent, name)


def note_tags(agent: AgentName, scope: str) -> list[tuple[str, ...]]:
    """The sets of tags that find the notes of a scope. All but the first are those of renderer 1, which stored no
    owner of shared notes: they find notes to erase, and are never used for recall."""
    if scope == SHARED:
        return [(scope_tag("note", agent, scope),), (tag("scope:shared", agent),)]
    old = [(scope_tag("private", agent, scope), tag("memory", target.value)) for target in Target]
    return [(scope_tag("note", agent, scope),), *old]


def _turn_tags(naming: NamingInputs) -> tuple[str, ...]:
    agent, principal = naming.agent, naming.principal
    tags = [*session_tags(agent, naming.session), tag("user", principal)]
    tags += [tag("parent", naming.parent)] if naming.parent else []
    tags += [tag("chat", naming.address)] if naming.address else []
    if is_agent(principal):  # an agent speaks for many people, so no other scope may see this
        return (*tags, scope_tag("group", agent, naming.address or naming.session))
    if is_group(naming.address):
        return (*tags, scope_tag("group", agent, naming.address), scope_tag("spoken", agent, principal))
    return (*tags, scope_tag("private", agent, principal))


def _note_tags(agent: AgentName, note: MemoryNote) -> tuple[str, ...]:
    tags = (tag("agent", agent), tag("memory", note.target), scope_tag("note", agent, note.scope))
    person = person_of(note.scope)
    return tags if person is None else (*tags, tag("user", person))


def _turn_metadata(parcel: Parcel, unit: DeliveryId) -> tuple[tuple[str, str], ...]:
    """Strings only: the server stores no other values."""
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
    """The text with control pictures for control characters, and U+FFFD for lone surrogates."""
    return _STRIPPED.sub(_picture, text)


def iso(at: Instant) -> str:
    moment = datetime.fromtimestamp(min(max(at, 0), _INSTANT_MAX) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(line: SpokenLine) -> str:
    speaker = " ".join(visible(line.speaker).split())
    text = "\n    ".join(visible(line.text).splitlines()) or "(nothing)"
    return f"[{iso(line.at)}] {speaker} ({visible(line.role)}): {text}"


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code >= 0xD800:
        return "\N{REPLACEMENT CHARACTER}"
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else chr(0x2400 + code)
