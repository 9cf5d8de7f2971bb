"""Blanking a person: what they said to one agent, what was answered to them, what was noted by and about them.

The agent is held (agents.py), so nothing is added that would have to be looked for. Its mailboxes and every session
with words of the person are locked first (D5), so that nothing of the person is written meanwhile.
What others said keeps its bytes. Summaries over a blanked entry are made of it, so they go, in branches too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from holdfast.core.forget import turns_of, words_of
from holdfast.core.ids import AgentName, Principal, SessionId
from holdfast.core.memory import stream_of
from holdfast.core.visibility import person_scope
from holdfast.stores.script import Row, Script, many, rows, run
from holdfast.stores.verbs.approvals import forget_digests
from holdfast.stores.verbs.delete import BRANCHES
from holdfast.stores.verbs.finish import forget_answers
from holdfast.stores.verbs.halt import drop_mail, halt_turn
from holdfast.stores.verbs.journal import entry_of
from holdfast.stores.verbs.reading import drop_enclosures_by
from holdfast.stores.verbs.replies import BLANK

LOCK_MAILBOXES = "select id from mailbox where agent = :agent order by id /*lock*/"
LOCK_SESSION = "select id from session where id = :session /*lock*/"
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
ENTRIES = "select seq, turn, kind, tokens, at, body from entry where session = :session order by seq"
BLANK_ENTRY = "update entry set body = :blank, tokens = 0 where session = :session and seq = :seq"
SEEING = """
with recursive seeing (id) as (
  select id from session where id = :session
  union
  select session.id from session join seeing on session.parent_id = seeing.id where session.fork_seq >= :first)"""
BLANK_SUMMARIES = f"""{SEEING}
update summary set body = :blank
 where session in (select id from seeing) and covers_through >= :first and length(body) > 0 returning n"""
VOID_CONTEXTS = f"{SEEING} update session set undo_count = undo_count + 1 where id in (select id from seeing)"
# A model may be reading the words just now: whatever it makes of them is refused, and asked for anew.
VOID_EXTRACTION = """
update finalisation set owner = null, fence = fence + 1
 where session = :session and step = 'begun' and owner is not null"""
BLANK_INBOUND = """
update inbound set body = :blank, sender_name = null, directory = null, repo = null
 where principal = :person and (length(body) > 0 or sender_name is not null)
   and mailbox in (select id from mailbox where agent = :agent)
returning message"""
REPLIES_TO_THEM = f"""{BLANK}
 where length(body) > 0 and message in (
   select message from inbound
    where principal = :person and mailbox in (select id from mailbox where agent = :agent)) returning id"""
REPLIES_OF_TURN = f"{BLANK} where session = :session and turn = :turn and length(body) > 0 returning id"
# Answers to commands whose messages were pruned: nobody can say any more who gave them, so in their session they go.
REPLIES_OF_SESSION = f"""{BLANK}
 where session = :session and turn is null and length(body) > 0
   and not exists (select 1 from inbound where inbound.message = reply.message and inbound.principal <> :person)
returning id"""
TITLES = """
update session set title = null, title_key = null where agent = :agent and principal = :person returning id"""
TURN_TITLES = """
update turn set title = null, directory = null, repo = null
 where session = :session and (title is not null or directory is not null)"""
SHOWN_NAME = "update pairing set name = '' where agent = :agent and principal = :person"
LOCK_MEMORY = "select stream from memory where agent = :agent order by stream /*lock*/"
# What was extracted from several speakers has no principal: whose words are in it nobody can say.
NOTES = """
select stream, seq, text, origin, subject = :scope or principal = :person from memory_op
 where agent = :agent and (subject = :scope or principal = :person or (principal = '' and written_by = 'extraction'))
   and (length(text) > 0 or length(old_text) > 0 or live = 1)"""
BLANK_NOTE = "update memory_op set text = :blank, old_text = :blank, live = 0 where stream = :stream and seq = :seq"
# Somebody else may have replaced their note, or brought it back by undoing its removal: then the words are there too.
BLANK_OLD_COPIES = "update memory_op set old_text = :blank where stream = :stream and old_text = :text"
# An equal note of another person is that person's own.
BLANK_COPIES = """
update memory_op set text = :blank, live = 0
 where stream = :stream and text = :text and principal in ('', :person) returning seq"""


@dataclass(slots=True)
class Blanked:
    """What was blanked: counts, turns by session, notes by stream."""

    counts: Counter[str] = field(default_factory=Counter)
    turns: dict[str, frozenset[int]] = field(default_factory=dict)
    shared: dict[str, frozenset[int]] = field(default_factory=dict)  # turns of others in which they are heard
    notes: dict[str, set[int]] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)  # sessions in which words of theirs were blanked


def hold_touched(agent: AgentName, people: Sequence[Principal]) -> Script[dict[Principal, list[SessionId]]]:
    """Lock the mailboxes and all sessions that may hold words of these people; the sessions of each.

    A summary of a branch is made of what its parent said: branches are locked before anything is blanked.
    """
    yield from rows(LOCK_MAILBOXES, agent=agent)
    found: dict[Principal, list[SessionId]] = {}
    for person in people:
        found[person] = sorted((yield from _touched(agent, person)))
    for session in sorted({session for sessions in found.values() for session in sessions}):
        yield from run(LOCK_SESSION, session=session)
    return found


def blank_person(agent: AgentName, person: Principal, sessions: Sequence[SessionId]) -> Script[Blanked]:
    """Blank what the person said in these sessions, which `hold_touched` locked, and everywhere else."""
    done = Blanked()
    for session in sessions:
        yield from _blank_session(session, person, done)
    done.counts["unanswered"] += yield from drop_mail(agent, person)
    done.counts["replies"] += len((yield from rows(REPLIES_TO_THEM, agent=agent, person=person, blank=b"")))
    messages = [row[0] for row in (yield from rows(BLANK_INBOUND, agent=agent, person=person, blank=b""))]
    done.counts["messages"] += len(messages)
    done.counts["attachments"] += yield from drop_enclosures_by(agent, person)
    yield from run(SHOWN_NAME, agent=agent, person=person)
    yield from _blank_titles(agent, person, done)
    yield from _blank_notes(agent, person, done)
    return done


def _touched(agent: AgentName, person: Principal) -> Script[set[SessionId]]:
    """Sessions that may hold words of theirs, and their branches, where somebody may have tried a turn again."""
    found = {SessionId(row[0]) for row in (yield from rows(THEIR_SESSIONS, agent=agent, person=person))}
    for (session,) in (yield from rows(OVERHEARD_SESSIONS, agent=agent)):
        if session not in found and _are_heard(person, (yield from rows(OVERHEARD, session=session))):
            found.add(SessionId(session))
    for row in (yield from rows(RECORDED, agent=agent, person=person)):
        if _are_heard(person, [row[:6]]):
            found.add(SessionId(row[6]))
    for session in sorted(found):
        found |= {SessionId(row[0]) for row in (yield from rows(BRANCHES_OF, session=session))}
    return found


def _are_heard(person: Principal, found: Sequence[Row]) -> bool:
    name = msgspec.json.encode(person)  # bodies without it need not be read
    named = [row for row in found if name in bytes(row[5])]
    return any(getattr(entry_of(SessionId(""), row).body, "principal", None) == person for row in named)


def _blank_session(session: SessionId, person: Principal, done: Blanked) -> Script[None]:
    principals = dict[int, str]()
    for n, principal in (yield from rows(TURNS, session=session)):
        principals[n] = principal
    entries = [entry_of(session, row) for row in (yield from rows(ENTRIES, session=session))]
    theirs = turns_of(person, principals, entries)
    yield from halt_turn(session, theirs)
    gone = sorted(words_of(person, theirs, entries))
    done.shared[session] = frozenset(entry.turn for entry in entries if entry.seq in gone) - theirs - {0}
    done.turns[session] = theirs
    for turn in sorted(theirs):
        done.counts["replies"] += len((yield from rows(REPLIES_OF_TURN, session=session, turn=turn, blank=b"")))
        yield from forget_digests(session, turn)
    if not gone:
        return
    done.heard.add(session)
    yield from many(BLANK_ENTRY, [{"session": session, "seq": seq, "blank": b""} for seq in gone])
    first = gone[0]
    voided = yield from rows(BLANK_SUMMARIES, session=session, first=first, blank=b"")
    yield from run(VOID_CONTEXTS, session=session, first=first)
    yield from run(VOID_EXTRACTION, session=session)
    yield from forget_answers(session)
    done.counts.update(sessions=1, entries=len(gone), summaries=len(voided))


def _blank_titles(agent: AgentName, person: Principal, done: Blanked) -> Script[None]:
    for (session,) in (yield from rows(TITLES, agent=agent, person=person)):
        yield from run(TURN_TITLES, session=session)
        left = yield from rows(REPLIES_OF_SESSION, session=session, person=person, blank=b"")
        done.counts["replies"] += len(left)


def _blank_notes(agent: AgentName, person: Principal, done: Blanked) -> Script[None]:
    yield from rows(LOCK_MEMORY, agent=agent)
    scope = person_scope(person)
    own = stream_of(agent, scope)
    found = [
        (stream, seq, text)
        for stream, seq, text, origin, is_theirs in (yield from rows(NOTES, agent=agent, scope=scope, person=person))
        if is_theirs or _session_of(origin) in done.heard
    ]
    for stream, seq, _ in found:
        yield from run(BLANK_NOTE, stream=stream, seq=seq, blank=b"")
        done.notes.setdefault(stream, set()).add(seq)
    for stream, text in sorted({(stream, bytes(text)) for stream, _, text in found if text and stream != own}):
        yield from run(BLANK_OLD_COPIES, stream=stream, text=text, blank=b"")
        for (seq,) in (yield from rows(BLANK_COPIES, stream=stream, text=text, person=person, blank=b"")):
            done.notes[stream].add(seq)
    done.counts["notes"] += sum(len(seqs) for seqs in done.notes.values())


def _session_of(origin: str) -> str:
    """The session of an extraction, by the origin of what it wrote (`finish:<session>:<epoch>`)."""
    return origin.removeprefix("finish:").rpartition(":")[0]
