"""Provenance: which entries of all agents are a person's words, or were made of them (D25).

It begins with the sessions of the agents that are asked to forget. From each turn that goes, the messages that it sent
to other agents lead to the turns that answered them there, their answers to the turns that they caused, and so on until
nothing new is found. A message between agents is a reply row, and its id is the event id at the other end.

All agents are held and all mailboxes locked before anything is read: what is on its way is either in a mailbox already,
or finds its reply row blank (accept.py). A session is locked before it is read. Numbers are kept, never texts: a
journal is read page by page.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from holdfast.inbox.address import parse
from holdfast.kernel.errors import InvalidAddress
from holdfast.kernel.ids import Principal, SessionId
from holdfast.memory.forget import HeardWords, turns_of
from holdfast.memory.visibility import AGENTS
from holdfast.sessions.delete_sql import BRANCHES
from holdfast.store.agent_lock_sql import hold_agents
from holdfast.store.script import Row, Script, one, rows
from holdfast.turns.journal import Observed, UserSaid
from holdfast.turns.journal_sql import entry_of

PAGE_ENTRIES = 500
LOCK_MAILBOXES = "select id from mailbox order by id /*lock*/"
LOCK_SESSION = "select agent from session where id = :session /*lock*/"
THEIR_SESSIONS = """
select distinct turn.session from turn join session on session.id = turn.session
 where session.agent = :agent and turn.principal = :person"""
OVERHEARD_SESSIONS = """
select distinct entry.session from entry join session on session.id = entry.session
 where session.agent = :agent and entry.kind in ('observed', 'recall')"""
OVERHEARD = """
select seq, turn, kind, tokens, at, body from entry
 where session = :session and kind in ('observed', 'recall') and kind = 'observed' and length(body) > 0"""
# A writer without a mailbox may record what several people said as one turn.
RECORDED = """
select entry.seq, entry.turn, entry.kind, entry.tokens, entry.at, entry.body, entry.session
  from session join turn on turn.session = session.id join entry on entry.session = turn.session
   and entry.seq >= turn.first_seq and entry.seq <= turn.last_seq
 where session.agent = :agent and session.mailbox is null and turn.principal <> :person
   and entry.kind = 'user' and length(entry.body) > 0"""
BRANCHES_OF = f"{BRANCHES} select id from branch"
TURNS = "select n, principal from turn where session = :session"
HEARD = """
select seq, turn, kind, tokens, at, body from entry
 where session = :session and seq > :after and kind in ('user', 'observed') and length(body) > 0
 order by seq limit :limit"""
MADE = """
select seq, turn from entry
 where session = :session and turn > 0 and kind not in ('user', 'observed', 'undo') and length(body) > 0"""
LETTERS = "select id, agent, address, turn, at from reply where session = :session and channel = 'agent'"
MAIL = """
select message, mailbox, session from inbound
 where account = :account and conversation = :conversation and event_id = :event_id"""
SESSIONS_AT = """
select id from session where mailbox = (select mailbox_id from address where address = :address) order by id"""


class AgentMessage(NamedTuple):
    """A message of one agent to another, or the answer to one."""

    id: str
    agent: str
    address: str
    turn: int
    at: int

    @property
    def target(self) -> str | None:
        """The address at which it arrives. An answer goes back to the conversation that asked (channels/agent.py)."""
        try:
            address = parse(self.address)
            return str(parse(address.chat) if address.agent == self.agent else address)
        except InvalidAddress:
            return None


@dataclass(slots=True)
class Found:
    """What goes of one session. `turns` go as a whole; `heard` are turns of others that have words of the person."""

    agent: str
    seqs: set[int] = field(default_factory=set)
    turns: frozenset[int] = frozenset()
    heard: frozenset[int] = frozenset()
    passed: frozenset[int] = frozenset()  # turns that answer what another agent passed on
    is_theirs: bool = False  # it has words of the person, or words that were passed on
    quoted: set[int] = field(default_factory=set)  # turns of others whose answers repeat the words
    unreadable: set[int] = field(default_factory=set)  # turns whose answers may repeat them, deleted before

    @property
    def answers(self) -> frozenset[int]:
        """Turns of which nothing that the agent made is left."""
        return self.turns | self.quoted


@dataclass(slots=True)
class Trail:
    """Whom it is about, and what was found so far."""

    people: frozenset[str]
    agents: frozenset[str]  # those that are asked to forget them; words that were passed on are followed to all
    held: set[str] = field(default_factory=set)  # agents whose locks are held
    sessions: dict[SessionId, Found] = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=dict)  # messages between agents that go, and where they arrive
    mail: dict[str, str] = field(default_factory=dict)  # inbound rows of such messages, and their mailboxes
    messages: set[str] = field(default_factory=set)  # other inbound rows of agents that repeat the words
    notes: set[tuple[str, int]] = field(default_factory=set)  # notes that the model made of the words, for others
    tainted: dict[SessionId, int] = field(default_factory=dict)  # from which entry on a session could know the words
    kept_answers: int = 0
    others_words: int = 0

    def found(self, session: SessionId, agent: str) -> Found:
        return self.sessions.setdefault(session, Found(agent))

    @property
    def reached(self) -> list[str]:
        """The agents that had any of the words."""
        return sorted({*self.agents, *(found.agent for found in self.sessions.values())})


def follow(trail: Trail) -> Script[None]:
    """Find everything that is the person's, and everything that was passed on of it."""
    yield from rows(LOCK_MAILBOXES)
    todo: set[SessionId] = set()
    for agent in sorted(trail.agents):
        for person in sorted(trail.people):
            todo |= yield from _touched(agent, Principal(person))
    while todo:
        batch, todo = sorted(todo), set()
        agents = yield from lock_sessions(batch)
        for session in batch:
            todo |= yield from _look(trail, session, agents[session])


def lock_sessions(sessions: Collection[SessionId]) -> Script[dict[SessionId, str]]:
    """The agent of each. All agents are held, so nobody else locks two of them in another order."""
    agents: dict[SessionId, str] = {}
    for session in sorted(sessions):
        row = yield from one(LOCK_SESSION, session=session)
        agents[session] = str(row[0]) if row else ""
    return agents


def _touched(agent: str, person: Principal) -> Script[set[SessionId]]:
    """Sessions that may hold words of theirs, and their branches, where somebody may have tried a turn again."""
    found = {SessionId(row[0]) for row in (yield from rows(THEIR_SESSIONS, agent=agent, person=person))}
    for (session,) in (yield from rows(OVERHEARD_SESSIONS, agent=agent)):
        if session not in found and _are_heard(person, (yield from rows(OVERHEARD, session=session))):
            found.add(SessionId(session))
    for row in (yield from rows(RECORDED, agent=agent, person=person)):
        if _are_heard(person, [row[:6]]):
            found.add(SessionId(row[6]))
    return (yield from with_branches(found))


def with_branches(sessions: Collection[SessionId]) -> Script[set[SessionId]]:
    found = set(sessions)
    for session in sorted(sessions):
        found |= {SessionId(row[0]) for row in (yield from rows(BRANCHES_OF, session=session))}
    return found


def _are_heard(person: Principal, found: list[Row]) -> bool:
    name = msgspec.json.encode(person)  # bodies without it need not be read
    named = [row for row in found if name in bytes(row[5])]
    return any(getattr(entry_of(SessionId(""), row).body, "principal", None) == person for row in named)


def _look(trail: Trail, session: SessionId, agent: str) -> Script[set[SessionId]]:
    """Note what goes of a session; the sessions that its messages to other agents lead to."""
    own = trail.people if agent in trail.agents else frozenset[str]()
    heard = yield from _heard(trail, session, own)
    owned = {n for n, principal in (yield from rows(TURNS, session=session)) if principal in own}
    found = trail.found(session, agent)
    before, found.turns = found.turns, turns_of(owned, heard)
    found.passed = frozenset(one_.turn for one_ in heard if one_.is_passed) - {0}
    found.seqs |= {one_.seq for one_ in heard if one_.goes}
    found.is_theirs = bool(found.seqs)
    found.heard = frozenset(one_.turn for one_ in heard if one_.goes) - found.turns - {0}
    if found.turns:
        found.seqs |= {seq for seq, turn in (yield from rows(MADE, session=session)) if turn in found.turns}
    reached: set[SessionId] = set()
    for letter in (yield from letters_of(session, found.turns - before)):
        reached |= yield from _arrived(trail, letter)
    return reached


def _heard(trail: Trail, session: SessionId, own: frozenset[str]) -> Script[list[HeardWords]]:
    """Whose each message is. A message that was tried again has another id: it is known by its text."""
    heard: list[HeardWords] = []
    copies: set[tuple[str, str]] = set()
    for again in (False, True):
        if again and not copies:
            break
        heard, after = [], 0
        while page := (yield from rows(HEARD, session=session, after=after, limit=PAGE_ENTRIES)):
            after = page[-1][0]
            for row, body in _said(session, page):
                is_passed = body.principal.startswith(AGENTS) and (
                    body.event_id.rpartition(".")[0] in trail.letters or (body.principal, body.text) in copies
                )
                if is_passed:
                    copies.add((body.principal, body.text))
                heard.append(HeardWords(row[0], row[1], body.principal in own, is_passed))
    return heard


def _said(session: SessionId, page: list[Row]) -> Iterator[tuple[Row, UserSaid | Observed]]:
    for row in page:
        body = entry_of(session, row).body
        if isinstance(body, UserSaid | Observed):
            yield row, body


def letters_of(session: SessionId, turns: Collection[int]) -> Script[list[AgentMessage]]:
    found = (yield from rows(LETTERS, session=session)) if turns else []
    return [letter for letter in map(AgentMessage._make, found) if letter.turn in turns]


def _arrived(trail: Trail, letter: AgentMessage) -> Script[set[SessionId]]:
    """The sessions that may have the message. Where its row was pruned, those of the conversation it went to."""
    target = letter.target
    if target is None or letter.id in trail.letters:
        return set()
    trail.letters[letter.id] = target
    yield from hold_target(trail, target)
    found = yield from mail_of(letter, target)
    trail.mail |= {message: mailbox for message, mailbox, _ in found}
    sessions = {SessionId(session) for *_, session in found if session is not None}
    if not found:
        sessions = {SessionId(row[0]) for row in (yield from rows(SESSIONS_AT, address=target))}
    return (yield from with_branches(sessions))


def hold_target(trail: Trail, target: str) -> Script[None]:
    """An agent that was never spoken to has no mailbox yet: one may be made just now, for this very message."""
    agent = parse(target).agent
    if agent not in trail.held:
        trail.held.add(agent)
        yield from hold_agents([agent])
        yield from rows(LOCK_MAILBOXES)


def mail_of(letter: AgentMessage, target: str) -> Script[list[Row]]:
    """The inbound rows of a message between agents: one for each piece."""
    found: list[Row] = []
    while True:
        piece = yield from one(
            MAIL,
            account=f"{AGENTS}{letter.agent}",
            conversation=target[-512:],
            event_id=f"{letter.id}.{len(found)}",
        )
        if piece is None:
            return found
        found.append(piece)
