"""The journal: a session's append-only sequence of entries. All other state is a cursor over it.

Rule 1: an entry is never changed. Undo is an entry; a summary is a row beside the journal.
Rule 2: `kind` and the field names of a body are stored names. A body that changes shape gets a new version and an
        upcast from the old one, so old journals can always be read.
Rule 3: sequence numbers grow by one within a session; a branch continues from its fork.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, get_args
from urllib.parse import quote

import msgspec

from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import Instant, SessionId
from holdfast.memory.notes_safety import without_hidden

TOKEN_BYTES = 4  # UTF-8 bytes per token, within a quarter of the real count for most languages
ENTRY_OVERHEAD_TOKENS = 4


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    name: str
    arguments: str = "{}"  # JSON, as the model wrote it


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of an entry. `v` is the version of its shape."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1


_LINE_END = re.compile("(\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029])")
_POSING = re.compile(r"[():]+")
_NOT_OF_AN_ID = re.compile(r"[^\w.@:+/~#!*=$-]")
_OTHER_BLANKS = re.compile(r"[^\S ]")


def speaker_of(name: str, principal: str) -> str:
    """The speaker's label for a model: names are not unique, so the id always follows; no name looks like an id."""
    shown = _as_id(principal)
    name = _POSING.sub(" ", _OTHER_BLANKS.sub(" ", without_hidden(name))).strip()
    return f"{name} ({shown})" if name else shown


def _as_id(principal: str) -> str:
    """One word per principal, unique: characters that could end or extend the word are percent-encoded."""
    if principal.isascii() and not _NOT_OF_AN_ID.search(principal):
        return principal
    return "".join(char if _is_of_an_id(char) else quote(char, safe="") for char in storable(principal))


def _is_of_an_id(char: str) -> bool:
    is_written = not _NOT_OF_AN_ID.match(char) or unicodedata.category(char) in {"Mn", "Mc"}
    return is_written and without_hidden(char) == char


def indented(text: str) -> str:
    """The text with every line but the first indented, so that no line passes for another speaker's."""
    return _LINE_END.sub(r"\1  ", text)


class SpokenBody(Body, frozen=True, omit_defaults=True):
    """A text of a sender."""

    text: str
    principal: str
    message: str = ""  # Holdfast's id of the inbound message
    event_id: str = ""  # the sender's id of the message
    name: str = ""  # the sender's display name

    @property
    def speaker(self) -> str:
        return speaker_of(self.name, self.principal)


class UserSaid(SpokenBody, frozen=True, omit_defaults=True):
    kind: ClassVar[str] = "user"


class Observed(SpokenBody, frozen=True, omit_defaults=True):
    """A message that was not addressed to the agent, or that the loop guard held."""

    kind: ClassVar[str] = "observed"


class AssistantSaid(Body, frozen=True, omit_defaults=True):
    kind: ClassVar[str] = "assistant"
    text: str
    calls: tuple[ToolCall, ...] = ()
    model: str = ""


class ToolStarted(Body, frozen=True, omit_defaults=True):
    """Written before a tool runs. Without a later result, the outcome of the call is unknown."""

    kind: ClassVar[str] = "tool_started"
    call: str
    name: str


class ToolReturned(Body, frozen=True, omit_defaults=True):
    kind: ClassVar[str] = "tool"
    call: str
    name: str
    text: str
    outcome: str = "ok"  # ok, error, unknown


class Recalled(Body, frozen=True, omit_defaults=True):
    """Recalled text, shown in its own turn only; never delivered, indexed, summarised or inherited."""

    kind: ClassVar[str] = "recall"
    text: str
    session: str = ""  # the key of the lookup
    epoch: int = 0
    head_seq: int = 0
    principal: str = ""
    sources: tuple[str, ...] = ()  # provider and provider's id of each shown item


class Noticed(Body, frozen=True, omit_defaults=True):
    """A notice from the runtime to the model about the conversation."""

    kind: ClassVar[str] = "notice"
    text: str


class Undone(Body, frozen=True, omit_defaults=True):
    """Turns first_turn..last_turn, which start at entry `from_seq`, are void."""

    kind: ClassVar[str] = "undo"
    first_turn: int
    last_turn: int
    from_seq: int
    by: str = ""  # the inbound message that requested the undo


class Forgotten(Body, frozen=True, omit_defaults=True):
    """A body blanked by deletion; the envelope stays."""

    kind: ClassVar[str] = "forgotten"


AnyBody: TypeAlias = (
    UserSaid | AssistantSaid | ToolStarted | ToolReturned | Observed | Recalled | Noticed | Undone | Forgotten
)
BODIES: Mapping[str, type[Body]] = {body.kind: body for body in get_args(AnyBody)}
# (kind, version) -> the same body one version later. Empty until a shape changes.
UPCASTS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_VERSIONED = b'{"v":'  # prefix of a body whose version is above 1
_encoder = msgspec.json.Encoder()
_decoders = {kind: msgspec.json.Decoder(body) for kind, body in BODIES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    seq: int
    turn: int  # 0 for an entry outside any turn
    body: AnyBody
    tokens: int
    at: Instant
    session: SessionId = SessionId("")  # for inherited entries, the ancestor's id

    @property
    def kind(self) -> str:
        return self.body.kind

    @property
    def text(self) -> str:
        return getattr(self.body, "text", "")


def encode_body(body: Body) -> bytes:
    """Version 1 is stored without `v`; later versions carry it, so old bodies need no rewriting."""
    if type(body).version == 1:
        return _encoder.encode(body)
    return _encoder.encode({"v": type(body).version, **msgspec.structs.asdict(body)})


def decode_body(kind: str, raw: bytes) -> AnyBody:
    """The body in its current version; older versions are upcast."""
    if not raw:
        return Forgotten()
    shape = BODIES.get(kind)
    if shape is None:
        raise InvariantBroken(f"an entry of the unknown kind {kind!r}", kind=kind)
    try:
        if shape.version == 1 and not raw.startswith(_VERSIONED):
            return _decoders[kind].decode(raw)  # type: ignore[return-value]
        fields = msgspec.json.decode(raw, type=dict[str, Any])
        return msgspec.convert(_upcast(kind, shape.version, fields), shape)  # type: ignore[return-value]
    except msgspec.MsgspecError as error:
        raise InvariantBroken(f"a {kind} entry cannot be read: {error}", kind=kind) from error


def _upcast(kind: str, target: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Raises for a version that this release does not know."""
    version = fields.pop("v", 1)
    if not isinstance(version, int) or not 1 <= version <= target:
        raise msgspec.ValidationError(f"its version is {version!r}; this release knows 1 to {target}")
    while version < target:
        fields = UPCASTS[kind, version](fields)
        version += 1
    return fields


def estimate_tokens(text: str) -> int:
    """A cheap estimate; the usage that the model reports corrects it per session."""
    return ENTRY_OVERHEAD_TOKENS + (len(text.encode("utf-8", "replace")) + TOKEN_BYTES - 1) // TOKEN_BYTES


def body_tokens(body: Body) -> int:
    """The tokens that an entry adds to a context; zero for a body that is never rendered."""
    match body:
        case AssistantSaid(text=text, calls=calls):
            return estimate_tokens(text + "".join(call.name + call.arguments for call in calls))
        case UserSaid() | ToolReturned() | Observed() | Noticed():
            return estimate_tokens(body.text)
    return 0


def is_storable(text: object) -> bool:
    """Whether an external value is text that every store can keep: no lone surrogates."""
    return isinstance(text, str) and (text.isascii() or _LONE_SURROGATE.search(text) is None)


def storable(text: str) -> str:
    """The text with lone surrogates replaced, for text that must not be rejected over one bad character."""
    return text if is_storable(text) else text.encode("utf-8", "replace").decode()


def is_undone(entry: Entry, undos: Sequence[Entry]) -> bool:
    """Whether a later undo voids this entry. Turn numbers are never reused, so ranges cannot clash."""
    return any(
        undo.seq > entry.seq
        and isinstance(undo.body, Undone)
        and undo.body.first_turn <= entry.turn <= undo.body.last_turn
        for undo in undos
    )


def effective(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that are neither undone nor undos themselves."""
    undos = [entry for entry in entries if isinstance(entry.body, Undone)]
    if not undos:
        return list(entries)
    return [e for e in entries if not isinstance(e.body, Undone) and not is_undone(e, undos)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    entry: Entry
    undone: bool
