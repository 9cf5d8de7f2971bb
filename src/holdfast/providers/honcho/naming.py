"""The names of Honcho's sessions and peers, as pure functions.

Rule 1: a session's name comes from the first of these that exists (R17): an explicit title mapping, the chat's stable
        key, the configured strategy. Every name has the form [prefix-]kind-agent-parts. A program or terminal in a
        directory has no platform chat: there every strategy but per-session takes precedence over the key.
Rule 2: two different keys get different names. Characters that Honcho's ids cannot hold are escaped, never replaced,
        and "-" is only a separator; a name that is too long ends in a hash of the whole name.
Rule 3: a chat's key is its address, so a chat keeps one session across /new, restarts and compressions (R18).
Rule 4: the agent is part of every name, since an agent never sees another agent's memory. Compat mode is the exception:
        it gives up rules 1, 2 and 4 for the names that Hermes' plugin made, so that users keep their history.
"""

import re
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import PurePath

from holdfast.inbox.address import Address, parse
from holdfast.kernel.errors import InvalidAddress
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.delivery import NamingInputs
from holdfast.memory.visibility import person_of

ID = re.compile(r"[a-zA-Z0-9_-]{1,512}\Z")  # valid for a workspace, session or peer
NAME_CHARS_MAX = 100
HASH_CHARS = 32
TERMINAL = "terminal"  # conversations of this channel have no chat key
LOCAL = "http"  # the channel of the library and of `holdfast chat`, which send their working directory
_ESCAPED = re.compile(r"[^a-zA-Z0-9]")
_HERMES_CHARS_MAX, _HERMES_HASH_CHARS = 100, 8
_HERMES_AGENT = "hermes"


class Strategy(Enum):
    """How a conversation without a mapped title and a chat key is named."""

    PER_SESSION = "per-session"
    PER_DIRECTORY = "per-directory"
    PER_REPO = "per-repo"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class HonchoNames:
    """Implements `Naming`. `titles` and `peers` are the operator's own mappings."""

    workspace: str = "holdfast"
    strategy: Strategy = Strategy.PER_SESSION  # the only one that never lets conversations share a session
    prefix: str = ""
    titles: tuple[tuple[str, str], ...] = ()  # title -> name of the session; in compat mode also directory -> name
    peers: tuple[tuple[str, str], ...] = ()  # compat only: principal or agent -> peer
    runtime_prefix: str = ""  # compat only: Hermes has one prefix for sessions and another for people
    compat: bool = False
    own_sessions: bool = False  # compat only: peers have Hermes' names, sessions those of rules 1 to 4

    # --- sessions

    def place(self, inputs: NamingInputs) -> str:
        if self.compat and not self.own_sessions:
            return _fitted(_hermes_session(self, inputs))
        return self._name(*_key(self, inputs))

    def memory_place(self, agent: AgentName, subject: str) -> str:
        """A lane only: conclusions belong to peers, and no session has this name."""
        return self._name("memory", agent, subject)

    def files_place(self, agent: AgentName, subject: str) -> str:
        """The session that memory files are migrated into."""
        return self._name("files", agent, subject)

    def chat(self, inputs: NamingInputs) -> Address | str | None:
        """The chat whose key names the session, or None."""
        chat = chat_of(inputs)
        is_local = isinstance(chat, Address) and chat.channel == LOCAL and bool(inputs.directory)
        return None if is_local and self.strategy is not Strategy.PER_SESSION else chat

    # --- peers

    def agent_peer(self, agent: AgentName) -> str:
        if self.compat:
            return _fitted(dict(self.peers).get(agent) or _hermes_agent(agent))
        return self._name("agent", agent)

    def scope_peer(self, agent: AgentName, scope: str) -> str:
        """The subject of a scope's notes: a person, or a peer without messages."""
        person = person_of(scope)
        if person is not None:
            return self.person_peer(agent, person)
        if self.compat:
            return _fitted(f"{self.agent_peer(agent)}-shared{'-' if scope else ''}{escaped(scope)}")
        return self._name("scope", agent, scope) if scope else self._name("shared", agent)

    def notes_peer(self, agent: AgentName) -> str:
        """The subject of the agent's own notes. It has no messages, so Honcho derives nothing about it."""
        return _fitted(f"{self.agent_peer(agent)}-notes") if self.compat else self._name("notes", agent)

    def person_peer(self, agent: AgentName, principal: Principal | str) -> str:
        """The peer of a principal; an empty principal is the person whom the agent's own USER.md describes."""
        if self.compat:
            return _fitted(_hermes_person(self, principal))
        return self._name("user", agent, principal) if principal else self._name("owner", agent)

    def _name(self, *parts: str) -> str:
        return _short("-".join(escaped(part) for part in ((self.prefix, *parts) if self.prefix else parts)))


def _key(names: HonchoNames, inputs: NamingInputs) -> tuple[str, ...]:
    """The parts of the session's name, by rule 1."""
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
    """A conversation without the directory or repository that the strategy needs is named by its session."""
    if names.strategy is Strategy.GLOBAL:
        return ("global", inputs.agent)
    if names.strategy is Strategy.PER_REPO and inputs.repo:
        return ("repo", inputs.agent, inputs.repo)
    if names.strategy in (Strategy.PER_REPO, Strategy.PER_DIRECTORY) and inputs.directory:
        return ("directory", inputs.agent, inputs.directory)
    return ("session", inputs.agent, inputs.session)


def chat_of(inputs: NamingInputs) -> Address | str | None:
    """The chat of the conversation; None for the terminal and for writers without a mailbox."""
    if not inputs.address:
        return None
    try:
        address = parse(inputs.address)
    except InvalidAddress:
        return inputs.address  # a key of another runtime
    return None if address.channel == TERMINAL else address


def escaped(text: str) -> str:
    """Letters and digits unchanged, every other byte as `_` and two hex digits. Different texts stay different."""
    return _ESCAPED.sub(lambda found: "".join(f"_{byte:02x}" for byte in _bytes(found[0])), text)


def _short(name: str) -> str:
    """An escaped text never contains `__`, so a shortened name never equals a whole one."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    digest = sha256(name.encode()).hexdigest()[:HASH_CHARS]
    return f"{name[: NAME_CHARS_MAX - HASH_CHARS - 2]}__{digest}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --- the names that Hermes' plugin makes ------------------------------------------------------------


def _hermes_session(names: HonchoNames, inputs: NamingInputs) -> str:
    """Hermes' order: chat key, session id, mapped directory (or title), title, repository, directory, workspace."""
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
    if isinstance(chat, Address):  # Hermes' keys are not escaped, and have no empty parts
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
    """A name that Honcho accepts. Hermes has no limit; a name that is too long for Honcho is cut and gets a hash."""
    plain = _replaced(name)
    return plain if len(plain) <= 512 else f"{plain[:NAME_CHARS_MAX]}-{_hermes_hash(name)}"


def _hermes_hash(text: str) -> str:
    return sha256(_bytes(text)).hexdigest()[:_HERMES_HASH_CHARS]
