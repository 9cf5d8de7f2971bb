"""Visibility: to whom a note belongs, and who may be shown it (D44). Every reader of notes asks this module.

The scope of a note is its `subject`: shared by the operator, one person, one chat, or one session.

Rule 1: a note that the model or an extraction makes in private belongs to the person who spoke; one made in a group
        belongs to that group. The operator's notes are shared. Nobody else's writing is ever shared.
Rule 2: a private conversation is shown the shared notes, the speaker's own and those of their linked accounts. A group
        is shown the shared notes and its own; a person's notes only where the operator allows it.
Rule 3: a chat that is not a group may still have several speakers, or another agent as one. What cannot be given to one
        person belongs to the chat, and what belongs to several chats to the session alone.
Rule 4: no principal can spell the scope of a chat, of a session, or of another principal.
Rule 5: where the operator says `memory.sharing = "agent"`, every private conversation is shown everything. A group is
        still shown the shared notes and its own.
Rule 6: an agent is nobody, since it speaks for many people. What is said or noted in a conversation with another agent
        stays in that chat, for recall as for notes, whatever the operator shares.
Rule 7: earlier releases wrote notes of the model into the shared stream. Such a note counts as the private note of the
        principal who is recorded with it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

from holdfast.inbox.address import parse
from holdfast.kernel.errors import InvalidAddress
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import Memory, MemoryEntry, Target

SHARED = ""
PERSON, CHAT, SESSION = "person:", "chat:", "session:"
AGENTS = "agent:"  # how the principal of another agent begins
BY_MODELS = frozenset({"model", "extraction"})
_PRIVATE_TYPES = frozenset({"dm", "chat"})
PLAIN_CHARS_MAX = 400  # of a scope's name; a longer one gets a hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who reads: one speaker, in one place. `kin` are the other principals of the same person."""

    agent: AgentName
    principal: Principal
    address: str = ""
    session: str = ""
    is_group: bool = False
    kin: tuple[Principal, ...] = ()
    private_in_groups: bool = False
    shares_all: bool = False  # the operator shares all that the agent remembers: it has one owner

    @property
    def sees_all(self) -> bool:
        return self.shares_all and not self.is_group and not is_agent(self.principal)

    @property
    def own(self) -> str:
        """The scope that this conversation writes to."""
        if self.is_group:
            return chat_scope(self.address) if self.address else session_scope(self.session)
        return scope_of(self.address, self.principal, session=self.session)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Every scope that may be shown, the conversation's own first."""
        found = [self.own, SHARED]
        found += [chat_scope(self.address)] if self.address else []
        found += [session_scope(self.session)] if self.session else []
        if not self.is_group or self.private_in_groups:
            found += [person_scope(who) for who in (self.principal, *self.kin) if _is_person(who)]
        return tuple(dict.fromkeys(found))

    def may_see(self, scope: str) -> bool:
        return self.sees_all or scope in self.scopes


def is_group(address: str) -> bool:
    """Whether several people read what is said at an address."""
    parts = address.split(":")
    return len(parts) > 3 and parts[3] not in _PRIVATE_TYPES


def is_agent(principal: Principal | str) -> bool:
    """Whether another agent speaks, and no person."""
    return principal.startswith(AGENTS)


def is_chat_alone(address: str, principal: Principal | str, *, shared: bool = False) -> bool:
    """Whether only what was said at this very address may be recalled here: in a group, where an agent speaks, and in
    a chat that is `shared` because several people have spoken in it."""
    return shared or is_group(address) or is_agent(principal)


# --- scopes ------------------------------------------------------------------------------------------


def person_scope(principal: Principal | str) -> str:
    """A principal by its name; one that begins like another kind of scope is written behind `person:`."""
    reserved = principal.startswith((PERSON, CHAT, SESSION))
    return _fitted(PERSON, principal) if reserved else principal


def chat_scope(address: str) -> str:
    """Everybody who reads one chat, or one thread of it. Sessions per user in a group share it: all of them read."""
    try:
        return _fitted(CHAT, str(replace(parse(address), user=None)))
    except InvalidAddress:  # a key that another runtime made
        return _fitted(CHAT, address)


def session_scope(session: str) -> str:
    return _fitted(SESSION, session)


def person_of(scope: str) -> Principal | None:
    """The principal of a person's scope; None for every other scope."""
    if scope == SHARED or scope.startswith((CHAT, SESSION)):
        return None
    return Principal(scope.removeprefix(PERSON))


def _fitted(kind: str, name: str) -> str:
    """Within the limit of a subject. A name with a hash is longer than every name without one, so none are equal."""
    if len(kind) + len(name) <= PLAIN_CHARS_MAX:
        return f"{kind}{name}"
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}{name[:PLAIN_CHARS_MAX]}~{digest}"


def _is_person(principal: Principal | str) -> bool:
    return bool(principal) and not is_agent(principal)


# --- where a note belongs ----------------------------------------------------------------------------


def scope_of(address: str, principal: Principal | str, *, session: str = "") -> str:
    """Where a note belongs that is made in one turn."""
    if not is_group(address) and _is_person(principal):
        return person_scope(principal)
    return chat_scope(address) if address else session_scope(session)


def scope_of_turns(turns: Iterable[tuple[str, str]], session: str) -> str:
    """Where a note belongs that is made of several turns, given as (address, principal)."""
    origins = set(turns)
    scopes = {scope_of(address, principal, session=session) for address, principal in origins}
    if len(scopes) == 1:
        return scopes.pop()
    places = {address for address, _ in origins}
    chats = {chat_scope(address) for address in places if address}
    return chats.pop() if len(chats) == 1 and "" not in places else session_scope(session)


def holder_of(subject: str, by: str, principal: Principal | str) -> str:
    """The scope of a note as it is kept; only the operator's words are shared."""
    return person_scope(principal) if subject == SHARED and by in BY_MODELS and principal else subject


# --- what is shown -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """A note that is not kept under the reader's own scope. `subject` says under which one it is kept."""

    scope: str
    entry: MemoryEntry
    subject: str

    @property
    def is_shared(self) -> bool:
        return self.scope == SHARED


@dataclass(frozen=True, slots=True)
class ShownNotes:
    """The notes of one audience: those of the scope it writes to, and the others it may read."""

    own: Memory
    others: tuple[ShownEntry, ...] = ()

    def others_of(self, target: Target) -> tuple[ShownEntry, ...]:
        return tuple(one for one in self.others if one.entry.target is target)


def shown_notes(audience: Audience, memories: Collection[Memory]) -> ShownNotes:
    """What the audience is shown of these memories; an equal text is shown once, its own first."""
    own = next((one for one in memories if one.subject == audience.own), None)
    own = own or Memory(agent=audience.agent, subject=audience.own)
    seen = {(entry.target, entry.text) for entry in own.entries}
    others: list[ShownEntry] = []
    for memory in memories:
        for entry in memory.entries if memory.subject != own.subject else ():
            scope = holder_of(memory.subject, entry.by, entry.principal)
            if audience.may_see(scope) and (entry.target, entry.text) not in seen:
                seen.add((entry.target, entry.text))
                others.append(ShownEntry(scope, entry, memory.subject))
    return ShownNotes(own, tuple(others))
