"""Provenance: the entries of all agents that are a person's words or were derived from them (D25).

The search starts with the sessions of the agents that are to forget. From each erased turn it follows the messages to
other agents, the turns that answered them, the turns that those answers started, and so on until it finds nothing new.
A message between agents is a reply row, and its id is the event id at the receiver.

All agents are held and all mailboxes locked before the first read: a message in transit is either in a mailbox already,
or its acceptance finds the reply row blank (accept_sql.py). A session is locked before it is read. Only numbers are
kept in memory, never texts: a journal is read page by page.
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
from holdfast.sessions.session_sql import BRANCHES
from holdfast.store.agent_lock_sql import hold_agents
from holdfast.store.script import Columns, Row, Script, one, rows
from holdfast.turns.journal import Observed, UserSaid
from holdfast.turns.journal_sql import ENTRY, EntryRow, entry_of

PAGE_ENTRIES = 500
LOCK_MAILBOXES = "select id from mailbox order by id /*lock*/"
LOCK_SESSION = "select agent from session where id = :session /*lock*/"
THEIR_SESSIONS = """
select distinct turn.session from turn join session on session.id = turn.session
 where session.agent = :agent and turn.principal = :person"""
OVERHEARD_SESSIONS = """
select distinct entry.session from entry join session on session.id = entry.session
 where session.agent = :agent and entry.kind in ('observed', 'recall')"""
OVERHEARD = f"""
select {ENTRY} from entry
 where session = :session and kind in ('observed', 'recall') and kind = 'observed' and length(body) > 0"""
# A writer without a mailbox may record messages of several people as one turn.
RECORDED = f"""
select {Columns(EntryRow, "entry")}, entry.session
  from session join turn on turn.session = session.id join entry on entry.session = turn.session
   and entry.seq >= turn.first_seq and entry.seq <= turn.last_seq
 where session.agent = :agent and session.mailbox is null and turn.principal <> :person
   and entry.kind = 'user' and length(entry.body) > 0"""
BRANCHES_OF = f"{BRANCHES} select id from branch"
TURNS = "select n, principal from turn where session = :session"
HEARD = f"""
select {ENTRY} from entry
 where session = :session and seq > :after and kind in ('user', 'observed') and length(body) > 0
 order by seq limit :limit"""
MADE = """
select seq, turn from entry
 where session = :session and turn > 0 and kind not in ('user', 'observed', 'undo') and length(body) > 0"""
MAIL = """
select message, mailbox, session from inbound
 where account = :account and conversation = :conversation and event_id = :event_id"""
SESSIONS_AT = """
select id from session where mailbox = (select mailbox_id from address where address = :address) order by id"""
# Unreadable turns: their session was deleted before the request.
DELETED = """
select distinct session.id from inbound join session on session.id = inbound.session
 where inbound.principal = :person and session.agent = :agent and session.state = 'deleted'"""
# The first turn that could know the person's words, and the first turn whose branches could. An observed message is in
# no turn: turns that ended before its arrival did not know it.
HEARD_FROM = """
select min(first), min(forked) from (
  select n as first, n as forked from turn where session = :session and principal = :person
  union all
  select turn as first, turn as forked from inbound
   where session = :session and principal = :person and turn is not null
  union all
  select coalesce(max(turn.n), 0) + 1 as first, coalesce(max(turn.n), 0) as forked
    from inbound left join turn on turn.session = inbound.session and turn.closed_at < inbound.at
   where inbound.session = :session and inbound.principal = :person and inbound.turn is null
     and inbound.state <> 'command'
   group by inbound.message) as heard"""
# The first turn of each deleted session that was shown a recollection: no row tells whose words it held.
RECALLED = """
select session.id, min(entry.turn) from session join entry on entry.session = session.id
 where session.agent = :agent and session.state = 'deleted'
   and entry.kind in ('observed', 'recall') and entry.kind = 'recall'
 group by session.id"""
PASSED_ON = "select session, turn from inbound where message = :message and session is not null and turn is not null"
UNREADABLE = """
with recursive line (id) as (
  select id from session where id = :session
  union
  select session.id from session join line on session.parent_id = line.id
   where session.fork_seq > 0 and session.fork_turn >= :forked)
select turn.session, turn.n, session.agent, session.opened_at from line join session on session.id = line.id
  join turn on turn.session = session.id
 where session.state = 'deleted' and turn.n >= :first"""


class AgentMessage(NamedTuple):
    """A message of one agent to another, or the answer to one."""

    id: str
    agent: str
    address: str
    turn: int
    at: int

    @property
    def target(self) -> str | None:
        """The receiver's address. An answer goes back to the asking conversation (channels/agent.py)."""
        try:
            address = parse(self.address)
            return str(parse(address.chat) if address.agent == self.agent else address)
        except InvalidAddress:
            return None


AGENT_MESSAGE = Columns(AgentMessage)
AGENT_MESSAGES = f"select {AGENT_MESSAGE} from reply where session = :session and channel = 'agent'"


@dataclass(slots=True)
class Found:
    """The erased part of one session. `turns` are erased whole; `heard` are others' turns with words of the person."""

    agent: str
    seqs: set[int] = field(default_factory=set)
    turns: frozenset[int] = frozenset()
    heard: frozenset[int] = frozenset()
    passed: frozenset[int] = frozenset()  # turns that answer a message passed on by another agent
    is_theirs: bool = False  # it contains words of the person, or words passed on
    quoted: set[int] = field(default_factory=set)  # others' turns whose answers repeat the words
    unreadable: set[int] = field(default_factory=set)  # turns with deleted answers that may repeat the words

    @property
    def answers(self) -> frozenset[int]:
        """The turns whose agent output is erased entirely."""
        return self.turns | self.quoted


@dataclass(slots=True)
class Trail:
    """The subject of the search, and its findings so far."""

    people: frozenset[str]
    agents: frozenset[str]  # those that are to forget; passed-on words are followed to all agents
    held: set[str] = field(default_factory=set)  # agents whose locks are held
    sessions: dict[SessionId, Found] = field(default_factory=dict)
    agent_messages: dict[str, str] = field(default_factory=dict)  # erased messages, with their receivers
    mail: dict[str, str] = field(default_factory=dict)  # inbound rows of such messages, with their mailboxes
    messages: set[str] = field(default_factory=set)  # inbound rows whose entries are erased, those of copies included
    notes: set[tuple[str, int]] = field(default_factory=set)  # notes for others, derived from the words
    tainted: dict[SessionId, int] = field(default_factory=dict)  # first entry at which a session could know them
    unreadable_since: dict[str, int] = field(default_factory=dict)  # opening of an agent's first unreadable session
    kept_answers: int = 0
    others_words: int = 0

    def found(self, session: SessionId, agent: str) -> Found:
        return self.sessions.setdefault(session, Found(agent))

    def is_unreadable(self, session: SessionId | None) -> bool:
        """Whether a session was deleted that may have held the words; so may one that is unknown."""
        return session is None or (session in self.sessions and bool(self.sessions[session].unreadable))

    @property
    def reached(self) -> list[str]:
        """The agents that received any of the words."""
        return sorted({*self.agents, *(found.agent for found in self.sessions.values())})


def follow(trail: Trail) -> Script[None]:
    """Find all words of the person, and all words passed on from them."""
    yield from rows(LOCK_MAILBOXES)
    todo: set[SessionId] = set()
    for agent in sorted(trail.agents):
        for person in sorted(trail.people):
            todo |= yield from _touched(agent, Principal(person))
    while todo:
        batch, todo = sorted(todo), set()
        agents = yield from lock_sessions(batch)
        for session in batch:
            todo |= yield from _scan(trail, session, agents[session])


def lock_sessions(sessions: Collection[SessionId]) -> Script[dict[SessionId, str]]:
    """Lock sessions; the agent of each. All agents are held, so no other lock order is possible."""
    agents: dict[SessionId, str] = {}
    for session in sorted(sessions):
        row = yield from one(LOCK_SESSION, session=session)
        agents[session] = str(row[0]) if row else ""
    return agents


def _touched(agent: str, person: Principal) -> Script[set[SessionId]]:
    """Sessions that may contain words of the person, and their branches, in which a turn may have been retried."""
    found = {SessionId(row[0]) for row in (yield from rows(THEIR_SESSIONS, agent=agent, person=person))}
    for (session,) in (yield from rows(OVERHEARD_SESSIONS, agent=agent)):
        if session not in found and _are_heard(person, (yield from ENTRY.rows(OVERHEARD, session=session))):
            found.add(SessionId(session))
    for *row, session in (yield from rows(RECORDED, agent=agent, person=person)):
        if _are_heard(person, [EntryRow._make(row)]):
            found.add(SessionId(session))
    return (yield from with_branches(found))


def with_branches(sessions: Collection[SessionId]) -> Script[set[SessionId]]:
    found = set(sessions)
    for session in sorted(sessions):
        found |= {SessionId(row[0]) for row in (yield from rows(BRANCHES_OF, session=session))}
    return found


def _are_heard(person: Principal, found: list[EntryRow]) -> bool:
    name = msgspec.json.encode(person)  # a body without the name is not decoded
    named = [row for row in found if name in row.body]
    return any(getattr(entry_of(SessionId(""), row).body, "principal", None) == person for row in named)


def _scan(trail: Trail, session: SessionId, agent: str) -> Script[set[SessionId]]:
    """Find the erased part of a session; the sessions that its messages to other agents reached."""
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
    for sent in (yield from agent_messages_of(session, found.turns - before)):
        reached |= yield from _arrived(trail, sent)
    return reached


def _heard(trail: Trail, session: SessionId, own: frozenset[str]) -> Script[list[HeardWords]]:
    """The messages of a session with their owners. A retried message has another id: it is matched by its text."""
    heard: list[HeardWords] = []
    copies: set[tuple[str, str]] = set()
    for again in (False, True):
        if again and not copies:
            break
        heard, after = [], 0
        while page := (yield from ENTRY.rows(HEARD, session=session, after=after, limit=PAGE_ENTRIES)):
            after = page[-1].seq
            for row, body in _said(session, page):
                is_passed = body.principal.startswith(AGENTS) and (
                    body.event_id.rpartition(".")[0] in trail.agent_messages or (body.principal, body.text) in copies
                )
                if is_passed:
                    copies.add((body.principal, body.text))
                    trail.messages.add(body.message)  # also of a copy, which came with another message
                heard.append(HeardWords(row.seq, row.turn, body.principal in own, is_passed))
    return heard


def _said(session: SessionId, page: list[EntryRow]) -> Iterator[tuple[EntryRow, UserSaid | Observed]]:
    for row in page:
        body = entry_of(session, row).body
        if isinstance(body, UserSaid | Observed):
            yield row, body


def agent_messages_of(session: SessionId, turns: Collection[int]) -> Script[list[AgentMessage]]:
    found = (yield from AGENT_MESSAGE.rows(AGENT_MESSAGES, session=session)) if turns else []
    return [sent for sent in found if sent.turn in turns]


def _arrived(trail: Trail, sent: AgentMessage) -> Script[set[SessionId]]:
    """The sessions that may contain the message; if its row was pruned, all sessions at the receiver's address."""
    target = sent.target
    if target is None or sent.id in trail.agent_messages:
        return set()
    trail.agent_messages[sent.id] = target
    yield from hold_target(trail, target)
    found = yield from mail_of(sent, target)
    trail.mail |= {message: mailbox for message, mailbox, _ in found}
    sessions = {SessionId(session) for *_, session in found if session is not None}
    if not found:
        sessions = {SessionId(row[0]) for row in (yield from rows(SESSIONS_AT, address=target))}
    return (yield from with_branches(sessions))


def hold_target(trail: Trail, target: str) -> Script[None]:
    """Lock the receiving agent if it had no data yet: this message may be creating its first mailbox."""
    agent = parse(target).agent
    if agent not in trail.held:
        trail.held.add(agent)
        yield from hold_agents([agent])
        yield from rows(LOCK_MAILBOXES)


def mail_of(sent: AgentMessage, target: str) -> Script[list[Row]]:
    """The inbound rows of a message between agents, one per piece."""
    found: list[Row] = []
    while True:
        piece = yield from one(
            MAIL,
            account=f"{AGENTS}{sent.agent}",
            conversation=target[-512:],
            event_id=f"{sent.id}.{len(found)}",
        )
        if piece is None:
            return found
        found.append(piece)


# --- unreadable turns ------------------------------------------------------------------------------


def find_unreadable(trail: Trail) -> Script[None]:
    """Add to the trail the turns of sessions that were deleted before the request.

    A deletion blanks the journal but not the providers, so whether an answer to another person repeats the forgotten
    words can no longer be determined. The rows still have the principal of each turn and message, and which turns were
    shown a recollection, so the providers erase every turn of the session, and of its branches, from the first one that
    could know the words.
    """
    known: list[tuple[SessionId, int, int]] = []
    heard = {session for session, found in trail.sessions.items() if found.agent in trail.agents}
    for person in sorted(trail.people):
        for agent in sorted(trail.agents):
            heard |= {SessionId(row[0]) for row in (yield from rows(DELETED, person=person, agent=agent))}
        for session in sorted(heard):
            first, forked = (yield from one(HEARD_FROM, session=session, person=person)) or (None, None)
            known += [(session, first, forked)] if first is not None else []
    for agent in sorted(trail.agents):
        known += [(SessionId(session), n, n) for session, n in (yield from rows(RECALLED, agent=agent))]
    for message in sorted(trail.mail):
        known += [(SessionId(session), n, n) for session, n in (yield from rows(PASSED_ON, message=message))]
    for session, first, forked in known:
        for deleted, n, agent, opened_at in (yield from rows(UNREADABLE, session=session, first=first, forked=forked)):
            trail.found(SessionId(deleted), agent).unreadable.add(n)
            trail.unreadable_since[agent] = min(opened_at, trail.unreadable_since.get(agent, opened_at))
