"""Visibility: who owns a note, and who may see it (D44). Every reader of notes uses this module.

The scope of a note is its `subject`: shared by the operator, one person, one chat, or one session.

Rule 1: a note that the model or an extraction makes in private belongs to the speaker; one made in a group belongs to
        the group. Only the operator's notes are shared.
Rule 2: a private conversation sees the shared notes, the speaker's own and those of their linked accounts. A group
        sees the shared notes and its own; a person's notes only if the operator allows it.
Rule 3: a chat that is not a group may still have several speakers, or another agent as one. A note without a single
        owner belongs to the chat, and a note from several chats to the session alone.
Rule 4: no principal can have the name of a chat's, a session's or another principal's scope.
Rule 5: with `memory.sharing = "agent"` every private conversation sees all notes. A group still sees only the shared
        notes and its own.
Rule 6: an agent is not a person, since it speaks for many people. Turns and notes of a conversation with another agent
        stay in that chat, even with `memory.sharing = "agent"`.
Rule 7: earlier releases wrote notes of the model into the shared stream. Such a note counts as a private note of its
        recorded principal.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from holdfast.inbox.address import parse
from holdfast.kernel.errors import InvalidAddress
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import AgentNotes, MemoryEntry, Target

SHARED = ""
PERSON, CHAT, SESSION = "person:", "chat:", "session:"
AGENTS = "agent:"  # the prefix of another agent's principal
BY_MODELS = frozenset({"model", "extraction"})
_PRIVATE_TYPES = frozenset({"dm", "chat"})
PLAIN_CHARS_MAX = 400  # a longer scope name gets a hash


@dataclass(frozen=True, kw_only=True)
class Audience:
    """The reader: one speaker, at one address. `kin` are the other principals of the same person."""

    agent: AgentName
    principal: Principal
    address: str = ""
    session: str = ""
    is_group: bool = False
    kin: tuple[Principal, ...] = ()
    private_in_groups: bool = False
    shares_all: bool = False  # the operator shares the agent's whole memory

    @property
    def sees_all(self) -> bool:
        return self.shares_all and not self.is_group and not is_agent(self.principal)

    @cached_property
    def own(self) -> str:
        """The scope that this conversation writes to."""
        if self.is_group:
            return chat_scope(self.address) if self.address else session_scope(self.session)
        return scope_of(self.address, self.principal, session=self.session)

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """Every visible scope, the conversation's own first."""
        found = [self.own, SHARED]
        found += [chat_scope(self.address)] if self.address else []
        found += [session_scope(self.session)] if self.session else []
        if not self.is_group or self.private_in_groups:
            found += [person_scope(who) for who in (self.principal, *self.kin) if _is_person(who)]
        return tuple(dict.fromkeys(found))

    def may_see(self, scope: str) -> bool:
        return self.sees_all or scope in self.scopes


def is_group(address: str) -> bool:
    """Whether several people read the messages of an address."""
    parts = address.split(":")
    return len(parts) > 3 and parts[3] not in _PRIVATE_TYPES


def is_agent(principal: Principal | str) -> bool:
    """Whether the principal is another agent, not a person."""
    return principal.startswith(AGENTS)


# --- scopes ------------------------------------------------------------------------------------------


def person_scope(principal: Principal | str) -> str:
    """The principal's name, with the prefix `person:` if it begins like another kind of scope."""
    reserved = principal.startswith((PERSON, CHAT, SESSION))
    return _fitted(PERSON, principal) if reserved else principal


def chat_scope(address: str) -> str:
    """The readers of one chat or thread. Per-user sessions of a group share the scope, since all members read it."""
    try:
        found = parse(address)
    except InvalidAddress:  # a key of another runtime
        return _fitted(CHAT, address)
    return _fitted(CHAT, address if found.user is None else str(replace(found, user=None)))


def session_scope(session: str) -> str:
    return _fitted(SESSION, session)


def person_of(scope: str) -> Principal | None:
    """The principal of a person's scope; None for every other scope."""
    if scope == SHARED or scope.startswith((CHAT, SESSION)):
        return None
    return Principal(scope.removeprefix(PERSON))


def _fitted(kind: str, name: str) -> str:
    """The name within the limit. A name with a hash is longer than any name without, so no two are equal."""
    if len(kind) + len(name) <= PLAIN_CHARS_MAX:
        return f"{kind}{name}"
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}{name[:PLAIN_CHARS_MAX]}~{digest}"


def _is_person(principal: Principal | str) -> bool:
    return bool(principal) and not is_agent(principal)


# --- the owner of a note ----------------------------------------------------------------------------


def scope_of(address: str, principal: Principal | str, *, session: str = "") -> str:
    """The scope of a note from one turn."""
    if not is_group(address) and _is_person(principal):
        return person_scope(principal)
    return chat_scope(address) if address else session_scope(session)


def scope_of_turns(turns: Iterable[tuple[str, str]], session: str) -> str:
    """The scope of a note from several turns, given as (address, principal)."""
    origins = set(turns)
    scopes = {scope_of(address, principal, session=session) for address, principal in origins}
    if len(scopes) == 1:
        return scopes.pop()
    places = {address for address, _ in origins}
    chats = {chat_scope(address) for address in places if address}
    return chats.pop() if len(chats) == 1 and "" not in places else session_scope(session)


def holder_of(subject: str, by: str, principal: Principal | str) -> str:
    """The effective scope of a stored note; only the operator's notes are shared."""
    return person_scope(principal) if subject == SHARED and by in BY_MODELS and principal else subject


# --- visible notes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """A visible note outside the reader's own scope. `subject` is the one it is stored under."""

    scope: str
    entry: MemoryEntry
    subject: str

    @property
    def is_shared(self) -> bool:
        return self.scope == SHARED


@dataclass(frozen=True, slots=True)
class ShownNotes:
    """The visible notes of one audience: those of its own scope, and others that it may read."""

    own: AgentNotes
    others: tuple[ShownEntry, ...] = ()

    def others_of(self, target: Target) -> tuple[ShownEntry, ...]:
        return tuple(one for one in self.others if one.entry.target is target)


def shown_notes(audience: Audience, memories: Collection[AgentNotes]) -> ShownNotes:
    """The visible notes among these; an equal text appears once, the audience's own first."""
    own = next((one for one in memories if one.subject == audience.own), None)
    own = own or AgentNotes(agent=audience.agent, subject=audience.own)
    seen = {(entry.target, entry.text) for entry in own.entries}
    others: list[ShownEntry] = []
    for memory in memories:
        for entry in memory.entries if memory.subject != own.subject else ():
            scope = holder_of(memory.subject, entry.by, entry.principal)
            if audience.may_see(scope) and (entry.target, entry.text) not in seen:
                seen.add((entry.target, entry.text))
                others.append(ShownEntry(scope, entry, memory.subject))
    return ShownNotes(own, tuple(others))
