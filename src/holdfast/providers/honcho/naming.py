"""The names of Honcho's sessions and peers: one pure function, the same wherever it is asked.

Rule 1: a session's name comes from the first of these that there is (R17): an explicit title mapping, the chat's
        stable key, the configured strategy. Every branch is spelt alike: [prefix-]kind-agent-parts. What a program or
        a terminal writes in a directory is no platform's chat: there every strategy but per-session goes first.
Rule 2: two keys that differ get names that differ. Whatever Honcho's ids cannot hold is escaped, never replaced, and
        "-" only ever separates; a name that would be too long ends in a hash of the whole of it.
Rule 3: a chat's key is its address, so it keeps one session across /new, restarts and compressions (R18).
Rule 4: the agent is part of every name, since an agent never sees another agent's memory. Compat mode is the exception:
        it gives up rules 1, 2 and 4 for the names that Hermes' plugin made, so that nobody loses their history.
"""

import re
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import PurePath

from holdfast.inbox.address import Address, parse
from holdfast.kernel.errors import InvalidAddress
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.naming import NamingInputs
from holdfast.memory.visibility import person_of

ID = re.compile(r"[a-zA-Z0-9_-]{1,512}\Z")  # what Honcho takes for a workspace, session or peer
NAME_CHARS_MAX = 100
HASH_CHARS = 32
TERMINAL = "terminal"  # the channel whose conversations have no chat key: a directory or a session names them
LOCAL = "http"  # the channel of the library and of `holdfast chat`, which say in which directory they are used
_ESCAPED = re.compile(r"[^a-zA-Z0-9]")
_HERMES_CHARS_MAX, _HERMES_HASH_CHARS = 100, 8
_HERMES_AGENT = "hermes"


class Strategy(Enum):
    """What names a conversation that has neither a mapped title nor a chat key."""

    PER_SESSION = "per-session"
    PER_DIRECTORY = "per-directory"
    PER_REPO = "per-repo"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class HonchoNames:
    """Implements `Naming`. `titles` and `peers` are the operator's own mappings."""

    workspace: str = "holdfast"
    strategy: Strategy = Strategy.PER_SESSION  # the only one under which conversations never share a session
    prefix: str = ""
    titles: tuple[tuple[str, str], ...] = ()  # a session's title -> what names its session; compat: a directory too
    peers: tuple[tuple[str, str], ...] = ()  # compat only: a principal or agent -> its peer
    runtime_prefix: str = ""  # compat only: Hermes has one prefix for sessions and another for people
    compat: bool = False

    # --- sessions

    def place(self, inputs: NamingInputs) -> str:
        if self.compat:
            return _fitted(_hermes_session(self, inputs))
        return self._name(*_key(self, inputs))

    def memory_place(self, agent: AgentName, subject: str) -> str:
        """A lane only: conclusions belong to peers, and no session of this name is ever made."""
        return self._name("memory", agent, subject)

    def files_place(self, agent: AgentName, subject: str) -> str:
        """The session that memory files are migrated into."""
        return self._name("files", agent, subject)

    def chat(self, inputs: NamingInputs) -> Address | str | None:
        """The chat whose key names the session, if its key is in force."""
        chat = chat_of(inputs)
        is_local = isinstance(chat, Address) and chat.channel == LOCAL and bool(inputs.directory)
        return None if is_local and self.strategy is not Strategy.PER_SESSION else chat

    # --- peers

    def agent_peer(self, agent: AgentName) -> str:
        if self.compat:
            return _fitted(dict(self.peers).get(agent) or _hermes_agent(agent))
        return self._name("agent", agent)

    def scope_peer(self, agent: AgentName, scope: str) -> str:
        """Whom the notes of a scope are about: a person, or a peer that nobody ever speaks as."""
        person = person_of(scope)
        if person is not None:
            return self.person_peer(agent, person)
        if self.compat:
            return _fitted(f"{self.agent_peer(agent)}-shared{'-' if scope else ''}{escaped(scope)}")
        return self._name("scope", agent, scope) if scope else self._name("shared", agent)

    def notes_peer(self, agent: AgentName) -> str:
        """Whom the agent's own notes are about. Nobody ever speaks as it, so Honcho derives nothing about it."""
        return _fitted(f"{self.agent_peer(agent)}-notes") if self.compat else self._name("notes", agent)

    def person_peer(self, agent: AgentName, principal: Principal | str) -> str:
        """Whom the agent knows as `principal`; empty means the person whom the agent's own USER.md is about."""
        if self.compat:
            return _fitted(_hermes_person(self, principal))
        return self._name("user", agent, principal) if principal else self._name("owner", agent)

    def _name(self, *parts: str) -> str:
        return _short("-".join(escaped(part) for part in ((self.prefix, *parts) if self.prefix else parts)))


def _key(names: HonchoNames, inputs: NamingInputs) -> tuple[str, ...]:
    """The parts that the session's name is made of, in the order of rule 1."""
    agent = inputs.agent
    mapped = dict(names.titles).get(inputs.title) if inputs.title else None
    if mapped:
        return ("title", agent, mapped)
    chat = names.chat(inputs)
    if isinstance(chat, Address):
        return ("chat", agent, chat.channel, chat.type, chat.chat, chat.thread or "", chat.user or "")
    if chat:
        return ("chat", agent, chat)
    return _by_strategy(names, inputs)


def _by_strategy(names: HonchoNames, inputs: NamingInputs) -> tuple[str, ...]:
    """What the strategy needs and the conversation does not have falls back to the session: it never mixes two."""
    if names.strategy is Strategy.GLOBAL:
        return ("global", inputs.agent)
    if names.strategy is Strategy.PER_REPO and inputs.repo:
        return ("repo", inputs.agent, inputs.repo)
    if names.strategy in (Strategy.PER_REPO, Strategy.PER_DIRECTORY) and inputs.directory:
        return ("directory", inputs.agent, inputs.directory)
    return ("session", inputs.agent, inputs.session)


def chat_of(inputs: NamingInputs) -> Address | str | None:
    """The chat that the conversation is held in; None for the terminal and for writers without a mailbox."""
    if not inputs.address:
        return None
    try:
        address = parse(inputs.address)
    except InvalidAddress:
        return inputs.address  # a key that another runtime made; as good a key as ours
    return None if address.channel == TERMINAL else address


def escaped(text: str) -> str:
    """Letters and digits as they are, every other byte as `_` and two hex digits. No two texts look the same."""
    return _ESCAPED.sub(lambda found: "".join(f"_{byte:02x}" for byte in _bytes(found[0])), text)


def _short(name: str) -> str:
    """`__` is never part of an escaped text, so a shortened name is never equal to a whole one."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    digest = sha256(name.encode()).hexdigest()[:HASH_CHARS]
    return f"{name[: NAME_CHARS_MAX - HASH_CHARS - 2]}__{digest}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --- the names that Hermes' plugin makes ------------------------------------------------------------


def _hermes_session(names: HonchoNames, inputs: NamingInputs) -> str:
    """Its order: chat key, session id, mapped directory (or title), title, repository, directory, workspace."""
    chat = _hermes_chat(names.chat(inputs))
    if chat:
        return chat
    if names.strategy is Strategy.PER_SESSION:
        return _prefixed(names, inputs.session)
    titles = dict(names.titles)
    mapped = titles.get(inputs.directory) or titles.get(inputs.title or "")
    if mapped:
        return mapped
    title = _collapsed(inputs.title or "")
    if title:
        return _prefixed(names, title)
    if names.strategy is Strategy.GLOBAL:
        return names.workspace
    repo = inputs.repo if names.strategy is Strategy.PER_REPO else ""
    return _prefixed(names, PurePath(repo or inputs.directory).name or inputs.session)


def _hermes_chat(chat: Address | str | None) -> str:
    if chat is None:
        return ""
    if isinstance(chat, Address):  # its keys are not escaped, and have no empty parts
        parts = ("agent", chat.agent, chat.channel, chat.type, chat.chat, chat.thread, chat.user)
        chat = ":".join(part for part in parts if part)
    collapsed = _collapsed(chat)
    if len(collapsed) <= _HERMES_CHARS_MAX:
        return collapsed
    kept = collapsed[: _HERMES_CHARS_MAX - _HERMES_HASH_CHARS - 1].rstrip("-")
    return f"{kept}-{_hermes_hash(chat)}"


def _hermes_person(names: HonchoNames, principal: str) -> str:
    alias = dict(names.peers).get(principal)
    if alias:
        return alias
    raw = f"{names.runtime_prefix}{principal or 'user-default'}"
    plain = _replaced(raw)
    is_taken = plain != raw or plain in {_replaced(peer) for _, peer in names.peers}
    return f"{plain}-{_hermes_hash(raw)}" if names.runtime_prefix and is_taken else plain


def _hermes_agent(agent: AgentName) -> str:
    if agent in ("main", "default"):
        return _HERMES_AGENT
    return f"{_HERMES_AGENT}_{re.sub('[^a-zA-Z0-9_-]', '_', agent).strip('_')}"


def _prefixed(names: HonchoNames, name: str) -> str:
    return f"{names.prefix}-{name}" if names.prefix else name


def _collapsed(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-")


def _replaced(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "-", text)


def _fitted(name: str) -> str:
    """A name as Honcho takes it. Hermes has no limit here; what Honcho would refuse is shortened with a hash."""
    plain = _replaced(name)
    return plain if len(plain) <= 512 else f"{plain[:NAME_CHARS_MAX]}-{_hermes_hash(name)}"


def _hermes_hash(text: str) -> str:
    return sha256(_bytes(text)).hexdigest()[:_HERMES_HASH_CHARS]
