"""Quotations: the agent's answers to others, and notes for them, that may repeat the words of a forgotten person.

The sessions that could know the words are found by provenance: later turns of a session with the words and of its
branches, turns with a recall of them, conversations that see a note derived from them, and the conversations at other
agents that any of these wrote to. Output of the agent there is erased if it shares a term with the words
(memory/quotation.py). Messages of people there stay, and their terms count as their own.

The words of a deleted session are unknown, but its turns are at the providers. So a recollection that may be of such a
session counts as the person's words in the conversation that it was shown in, and where that conversation passed it on.

Journals are read page by page. The person's terms and the turn numbers are kept in memory for this transaction only: no
term is ever stored.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.kernel.ids import SessionId
from holdfast.memory.provenance_sql import (
    PAGE_ENTRIES,
    SESSIONS_AT,
    THEIR_SESSIONS,
    Trail,
    agent_messages_of,
    hold_target,
    lock_sessions,
    mail_of,
)
from holdfast.memory.quotation import Terms, made_texts, terms_in
from holdfast.memory.recall import framed_items
from holdfast.memory.visibility import AGENTS, CHAT, SESSION, chat_scope, holder_of, person_of, person_scope
from holdfast.store.script import Columns, Script, one, rows, utf8
from holdfast.turns.journal import Entry, Forgotten, Noticed, Observed, Recalled, Undone, UserSaid, decode_body
from holdfast.turns.journal_sql import ENTRY, chain, entries, entry_of

ENTRIES = f"""
select {ENTRY} from entry
 where session = :session and seq > :after and length(body) > 0 order by seq limit :limit"""
MAIL = """
select message, body, at from inbound
 where principal = :person and mailbox in (select id from mailbox where agent = :agent) and message > :after
   and length(body) > 0 order by message limit :limit"""
RECALLS = """
select session, seq, body, at from entry
 where kind in ('observed', 'recall') and kind = 'recall' and at >= :since
   and session in (select id from session where agent = :agent) and (session, seq) > (:session, :seq)
 order by session, seq limit :limit"""
CHILDREN = "select id, fork_seq from session where parent_id = :session and fork_seq >= :first"
SINCE = "select min(seq) from entry where session = :session and at >= :at"


class ModelNote(NamedTuple):
    """A note that a model or an extraction wrote."""

    stream: str
    seq: int
    subject: str
    text: str
    origin: str
    written_by: str
    principal: str
    at: int

    @property
    def holder(self) -> str:
        return holder_of(self.subject, self.written_by, self.principal)


MODEL_NOTE = Columns(ModelNote, text=("text", utf8))
NOTES = f"""
select {MODEL_NOTE} from memory_op
 where agent = :agent and written_by in ('model', 'extraction') and length(text) > 0 and at >= :since
   and (stream, seq) > (:stream, :seq)
 order by stream, seq limit :limit"""
MAILBOXES = "select id, address from mailbox where agent = :agent and id > :after order by id limit :limit"
SESSIONS_OF = "select id from session where mailbox = :mailbox order by id"
NEVER = 1 << 62


@dataclass(slots=True)
class Search:
    """The terms of the search, and the sessions still to be scanned."""

    trail: Trail
    terms: Terms = field(default_factory=Terms)
    since: int = NEVER  # time of the person's first word, or of the first unreadable session
    todo: dict[SessionId, int] = field(default_factory=dict)
    others: dict[SessionId, set[str]] = field(default_factory=dict)  # terms in messages of other people
    recalled: dict[SessionId, set[str]] = field(default_factory=dict)  # terms that may be of deleted sessions
    judged: dict[SessionId, set[int]] = field(default_factory=dict)  # turns whose answers repeat no term
    spoken: dict[SessionId, set[int]] = field(default_factory=dict)  # entries of other people with a term
    shown: set[tuple[str, str]] = field(default_factory=set)  # agents and scopes of notes with the words

    def suspect(
        self, session: SessionId, start: int, others: Iterable[str] = (), recalled: Collection[str] = ()
    ) -> None:
        """Queue a session for scanning: it could know the words, and those in `recalled`, from entry `start` on."""
        self.others.setdefault(session, set()).update(others)
        if not self.recalled.get(session, set()).issuperset(recalled):
            self.recalled.setdefault(session, set()).update(recalled)
            start = min(start, self.trail.tainted.pop(session, NEVER))  # what was scanned is scanned again
        if start < self.trail.tainted.get(session, NEVER):
            self.todo[session] = min(start, self.todo.get(session, NEVER))

    def terms_of(self, session: SessionId) -> Terms:
        """The terms that are evidence in a session."""
        recalled = self.recalled.get(session)
        return Terms(self.terms.said | recalled, self.terms.answered) if recalled else self.terms


def find_quotations(trail: Trail) -> Script[Search]:
    """Add to the trail the entries, messages and notes that repeat the words of its entries."""
    search = Search(trail)
    yield from _collect(search)
    if not search.terms and not trail.unreadable_since:
        return search
    search.since = min((search.since, *trail.unreadable_since.values()))
    for session, found in trail.sessions.items():
        if found.seqs:
            search.suspect(session, min(found.seqs))
    yield from _suspect_recalls(search)
    yield from _suspect_notes(search)
    while search.todo:
        batch, search.todo = search.todo, {}
        agents = yield from lock_sessions(batch)
        for session, start in sorted(batch.items()):
            if start < trail.tainted.get(session, NEVER):
                trail.tainted[session] = start
                yield from _scan(search, session, agents[session], start)
        if not search.todo:
            yield from _suspect_notes(search)
    trail.kept_answers = sum(map(len, search.judged.values()))
    trail.others_words = sum(map(len, search.spoken.values()))
    return search


# --- terms -----------------------------------------------------------------------------------------


def _collect(search: Search) -> Script[None]:
    trail = search.trail
    for session, found in sorted(trail.sessions.items()):
        after = 0
        while found.seqs and (
            page := (yield from ENTRY.rows(ENTRIES, session=session, after=after, limit=PAGE_ENTRIES))
        ):
            after = page[-1].seq
            for row in page:
                if row.seq in found.seqs:
                    search.since = min(search.since, row.at)
                    _note_terms(search, entry_of(session, row))
    for agent in sorted(trail.agents):
        for person in sorted(trail.people):
            yield from _collect_mail(search, agent, person)


def _note_terms(search: Search, entry: Entry) -> None:
    body = entry.body
    if isinstance(body, UserSaid | Observed) and not body.principal.startswith(AGENTS):
        search.terms.add_said(body.text)
    elif not isinstance(body, Recalled | Noticed):  # the runtime writes notices itself
        search.terms.add_answered(body)


def _collect_mail(search: Search, agent: str, person: str) -> Script[None]:
    """Add the terms of messages that are in no journal: commands, waiting and refused messages."""
    after = ""
    while page := (yield from rows(MAIL, agent=agent, person=person, after=after, limit=PAGE_ENTRIES)):
        after = page[-1][0]
        for _, body, at in page:
            search.since = min(search.since, at)
            search.terms.add_said(bytes(body).decode("utf-8", "replace"))


# --- suspect sessions ------------------------------------------------------------------------------


def _suspect_recalls(search: Search) -> Script[None]:
    """Queue sessions with a recall of the words, or with a blank recall, whose content is unknown."""
    for agent in search.trail.reached:
        place = ("", 0)
        unreadable_since = search.trail.unreadable_since.get(agent, NEVER)
        while page := (
            yield from rows(
                RECALLS, agent=agent, since=search.since, session=place[0], seq=place[1], limit=PAGE_ENTRIES
            )
        ):
            place = (page[-1][0], page[-1][1])
            for session, seq, body, at in page:
                texts = made_texts(decode_body("recall", bytes(body))) if body else []
                doubtful = _doubtful(search.trail, texts) if at >= unreadable_since else set()
                if doubtful or not body or search.terms.quoted_in(texts, ()):
                    search.suspect(SessionId(session), seq, recalled=doubtful)


def _doubtful(trail: Trail, texts: Iterable[str]) -> set[str]:
    """The terms of recollections that may be of a deleted session with the words."""
    items = (item for text in texts for item in framed_items(text))
    return {term for session, words in items if trail.is_unreadable(session) for term in terms_in(words)}


def _suspect_notes(search: Search) -> Script[None]:
    """Queue the conversations that see a note derived from the words, from the note's time on."""
    for agent in search.trail.reached:
        chats: dict[str, int] = {}
        for scope, at in (yield from quoting_notes(search, agent)):
            if (agent, scope) in search.shown:
                continue
            search.shown.add((agent, scope))
            if scope.startswith(CHAT):
                chats[scope] = at
            elif scope.startswith(SESSION):
                yield from _suspect_since(search, [SessionId(scope.removeprefix(SESSION))], at)
            elif (person := person_of(scope)) is not None and person not in search.trail.people:
                theirs = yield from rows(THEIR_SESSIONS, agent=agent, person=person)
                yield from _suspect_since(search, [SessionId(row[0]) for row in theirs], at)
        yield from _suspect_chats(search, agent, chats)


def _suspect_chats(search: Search, agent: str, chats: dict[str, int]) -> Script[None]:
    after = ""
    while chats and (page := (yield from rows(MAILBOXES, agent=agent, after=after, limit=PAGE_ENTRIES))):
        after = page[-1][0]
        for mailbox, address in page:
            scope = chat_scope(address)
            if scope in chats:
                found = yield from rows(SESSIONS_OF, mailbox=mailbox)
                yield from _suspect_since(search, [SessionId(row[0]) for row in found], chats[scope])


def _suspect_since(
    search: Search, sessions: Iterable[SessionId], at: int, others: Iterable[str] = (), recalled: Collection[str] = ()
) -> Script[None]:
    for session in sessions:
        (seq,) = (yield from one(SINCE, session=session, at=at)) or (None,)
        if seq is not None:
            search.suspect(session, seq, others, recalled)


def quoting_notes(search: Search, agent: str) -> Script[list[tuple[str, int]]]:
    """The scope and time of each model-written note with the words. Notes for others are added to the trail."""
    trail, found = search.trail, list[tuple[str, int]]()
    place = ("", 0)
    while page := (
        yield from MODEL_NOTE.rows(
            NOTES, agent=agent, since=search.since, stream=place[0], seq=place[1], limit=PAGE_ENTRIES
        )
    ):
        place = (page[-1].stream, page[-1].seq)
        for note in page:
            if _is_of_them(trail, agent, note):
                found.append((note.holder, note.at))
            elif (note.stream, note.seq) in trail.notes or _quotes(search, note):
                trail.notes.add((note.stream, note.seq))
                found.append((note.holder, note.at))
    return found


def _is_of_them(trail: Trail, agent: str, note: ModelNote) -> bool:
    """Whether a note is by or about the person: such notes are always erased (forget_person_sql.py)."""
    scopes = {person_scope(person) for person in trail.people}
    return agent in trail.agents and (note.subject in scopes or note.principal in trail.people)


def _quotes(search: Search, note: ModelNote) -> bool:
    origin = origin_session(note.origin)
    if origin is not None and origin not in search.trail.tainted:
        return False
    if origin is None:
        return search.terms.quoted_in([note.text], ())
    return search.terms_of(origin).quoted_in([note.text], search.others.get(origin, ()))


def origin_session(origin: str) -> SessionId | None:
    """The session that wrote a note, from its origin (`tool:<session>:<turn>:<call>`, `finish:<session>:<epoch>`); None
    for other origins."""
    kind, _, rest = origin.partition(":")
    if kind == "finish":
        return SessionId(rest.rpartition(":")[0])
    parts = rest.split(":")
    return SessionId(parts[0]) if kind == "tool" and len(parts) > 2 else None


# --- scanning --------------------------------------------------------------------------------------


def _scan(search: Search, session: SessionId, agent: str, start: int) -> Script[None]:
    """Check the agent's output in a session from entry `start` on. Earlier entries only show who used which term."""
    trail = search.trail
    found = trail.found(session, agent)
    others, earlier = search.others.setdefault(session, set()), set[str]()
    kept, spoken = search.judged.setdefault(session, set()), search.spoken.setdefault(session, set())
    judged: set[int] = set()
    terms = search.terms_of(session)
    links = yield from chain(session)
    after = 0
    while page := (yield from entries(links, after=after, limit=PAGE_ENTRIES)):
        after = page[-1].seq
        for entry, is_made in _readable(trail, page):
            if not is_made:
                others |= terms.known_in(entry.text)
                if entry.session == session and search.terms.known_in(entry.text):
                    spoken.add(entry.seq)
            elif entry.session != session or entry.seq < start:
                for text in made_texts(entry.body):
                    earlier |= terms.known_in(text)
            elif terms.quoted_in(made_texts(entry.body), others, earlier):
                found.quoted |= {entry.turn} - {0}
                if not entry.turn or isinstance(entry.body, UserSaid):
                    found.seqs.add(entry.seq)
                if isinstance(entry.body, UserSaid | Observed):
                    trail.messages.add(entry.body.message)
            else:
                judged.add(entry.turn)
    kept |= judged - {0}
    kept -= found.quoted
    yield from _spread(search, session, start, judged | found.quoted, others)


def _readable(trail: Trail, page: Iterable[Entry]) -> Iterator[tuple[Entry, bool]]:
    """Entries that are not the forgotten person's, and whether an agent wrote them."""
    for entry in page:
        gone = trail.sessions.get(entry.session)
        body = entry.body
        if isinstance(body, Forgotten | Undone | Recalled) or (gone is not None and entry.seq in gone.seqs):
            continue
        yield entry, not isinstance(body, UserSaid | Observed) or body.principal.startswith(AGENTS)


def _spread(search: Search, session: SessionId, start: int, turns: set[int], others: set[str]) -> Script[None]:
    """Queue the branches that contain these turns, and the conversations that the turns wrote to."""
    recalled = search.recalled.get(session, set())
    for child, fork_seq in (yield from rows(CHILDREN, session=session, first=start)):
        search.suspect(SessionId(child), fork_seq + 1, others, recalled)
    found = search.trail.sessions[session]
    for sent in (yield from agent_messages_of(session, turns - found.turns)):
        target = sent.target
        if target is None:
            continue
        yield from hold_target(search.trail, target)
        if sent.turn in found.quoted:
            search.trail.agent_messages[sent.id] = target
            waiting = [row for row in (yield from mail_of(sent, target)) if row[2] is None]
            search.trail.mail |= {message: mailbox for message, mailbox, _ in waiting}
        reached = yield from rows(SESSIONS_AT, address=target)
        yield from _suspect_since(search, [SessionId(row[0]) for row in reached], sent.at, others, recalled)
