"""Blanking a person: their messages, the answers to them, notes by and about them, and the agent messages and
quotations that repeat their words.

The words were found before (provenance_sql.py, quotation_sql.py), under the locks of all agents, all mailboxes and the
affected sessions (D5), so no further word of the person is written meanwhile. Messages of others keep their bytes.
Summaries that cover a blanked entry are blanked too, also in branches. Every hash of a blanked text is removed.

The open turn and the waiting messages that contain forgotten words are ended. The mailbox's claim is voided first, so
that a worker that still has the words can no longer write them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.inbox.attachment_sql import drop_enclosures, drop_enclosures_by
from holdfast.kernel.ids import AgentName, MessageId, Principal, SessionId
from holdfast.memory.notes import stream_of
from holdfast.memory.provenance_sql import Found, Trail
from holdfast.memory.quotation_sql import Search, origin_session, quoting_notes
from holdfast.memory.visibility import person_scope
from holdfast.outbox.reply_sql import BLANK
from holdfast.sessions.finalisation_sql import forget_answers
from holdfast.sessions.session_sql import UNHASHED
from holdfast.store.script import Columns, Row, Script, many, one, rows, run
from holdfast.turns import approval_sql
from holdfast.turns.approval_sql import forget_digests
from holdfast.turns.turn import Phase, TurnEvent, advance
from holdfast.turns.turn_sql import LIGHTEN

FORGOTTEN = "forgotten"  # the reason stored with the envelopes
LIVE_IN = "select id from mailbox where session_id = :session"
VOID = "update mailbox set owner = null, claim = null, fence = fence + 1 where id = :mailbox"
LEAVE = "update mailbox set session_id = null where session_id = :session"
OPEN_TURN = """
select turn.n, turn.phase from session join turn on turn.session = session.id and turn.n = session.open_turn
 where session.id = :session"""
CLOSE_TURN = """
update turn
   set phase = :phase, closed_at = :now, reason = :reason,
       fence = (select fence from mailbox where id = :mailbox),
       lease_fence = (select fence from mailbox where id = :mailbox)
 where session = :session and n = :n"""
CLOSE_SESSION = "update session set open_turn = null, committed_seq = last_seq where id = :session"
IN_TURN = """
update inbound set state = 'interrupted', reason = :reason
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and state = 'in_turn' returning message"""
WAITING = """
update inbound set state = 'interrupted', reason = :reason, body = :blank
 where state in ('waiting', 'in_turn') and state = 'waiting' and principal = :person
   and mailbox in (select id from mailbox where agent = :agent) returning mailbox"""

IS_OPEN = "select 1 from session where id = :session and open_turn is not null"
LETTER = """
update inbound set state = 'interrupted', reason = :reason, body = :blank
 where message = :message and state in ('waiting', 'in_turn') and state = 'waiting' returning mailbox"""


def halt_turn(session: SessionId, turns: frozenset[int] | None = None) -> Script[None]:
    """End the open turn, if there is one; with `turns`, only if it is one of them."""
    found: Row | None = yield from one(OPEN_TURN, session=session)
    box = yield from one(LIVE_IN, session=session)
    if found is None or box is None or (turns is not None and found[0] not in turns):
        return
    phase = advance(Phase(found[1]), TurnEvent.INTERRUPTED)
    yield from run(VOID, mailbox=box[0])
    yield from run(CLOSE_TURN, session=session, n=found[0], phase=phase.value, reason=FORGOTTEN, mailbox=box[0])
    yield from run(CLOSE_SESSION, session=session)
    yield from approval_sql.close(box[0], session, found[0])
    ended = yield from rows(IN_TURN, mailbox=box[0], reason=FORGOTTEN)
    yield from run(LIGHTEN, mailbox=box[0], count=len(ended), release=0)


def void_claim(session: SessionId) -> Script[None]:
    """Void the claim on the session's open turn; the turn is resumed with a newly read context."""
    box = yield from one(LIVE_IN, session=session)
    if box is not None and (yield from one(IS_OPEN, session=session)) is not None:
        yield from run(VOID, mailbox=box[0])


def leave_mailbox(session: SessionId) -> Script[None]:
    """Detach the session from its mailbox, and void the mailbox's claim."""
    box = yield from one(LIVE_IN, session=session)
    if box is not None:
        yield from run(VOID, mailbox=box[0])
        yield from run(LEAVE, session=session)


def _decrement(boxes: Sequence[str]) -> Script[int]:
    """Decrement each mailbox's message count by the number of its dropped messages; their number."""
    for mailbox in sorted(set(boxes)):
        yield from run(VOID, mailbox=mailbox)
        yield from run(LIGHTEN, mailbox=mailbox, count=boxes.count(mailbox), release=0)
    return len(boxes)


# --- blanking ----------------------------------------------------------------------------------------

BLANK_ENTRY = "update entry set body = :blank, tokens = 0 where session = :session and seq = :seq"
BLANK_ANSWER = """
update entry set body = :blank, tokens = 0
 where session = :session and turn = :turn and kind not in ('user', 'observed', 'undo') and length(body) > 0
returning seq"""
SEEING = """
with recursive seeing (id) as (
  select id from session where id = :session
  union
  select session.id from session join seeing on session.parent_id = seeing.id where session.fork_seq >= :first)"""
BLANK_SUMMARIES = f"""{SEEING}
update summary set body = :blank
 where session in (select id from seeing) and covers_through >= :first and length(body) > 0 returning n"""
VOID_CONTEXTS = f"{SEEING} update session set undo_count = undo_count + 1 where id in (select id from seeing)"
# A model may be processing the words now: its result is rejected, and the extraction is repeated.
VOID_EXTRACTION = """
update finalisation set owner = null, fence = fence + 1
 where session = :session and step = 'begun' and owner is not null"""
BLANK_INBOUND = f"""
update inbound set body = :blank, sender_name = null, directory = null, repo = null, {UNHASHED}
 where principal = :person and (length(body) > 0 or length(body_hash) > 0 or sender_name is not null)
   and mailbox in (select id from mailbox where agent = :agent)
returning message"""
BLANK_MESSAGE = f"update inbound set body = :blank, {UNHASHED} where message = :message returning message"
BLANK_TOMBSTONES = """
update tombstone set body_hash = :blank where principal = :person and agent = :agent and length(body_hash) > 0"""
REPLIES_TO_THEM = f"""{BLANK}
 where length(body) > 0 and message in (
   select message from inbound
    where principal = :person and mailbox in (select id from mailbox where agent = :agent)) returning id"""
REPLIES_OF_TURN = f"{BLANK} where session = :session and turn = :turn and length(body) > 0 returning id"
# Answers to commands whose messages were pruned: the sender is unknown, so all of them in the session are blanked.
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
# A note extracted from several speakers has no principal: its speakers are unknown.


class SuspectNote(NamedTuple):
    """A note that may hold words of the person."""

    stream: str
    seq: int
    text: bytes
    origin: str
    is_theirs: bool


SUSPECT_NOTE = Columns(SuspectNote, is_theirs="subject = :scope or principal = :person")
NOTES = f"""
select {SUSPECT_NOTE} from memory_op
 where agent = :agent and (subject = :scope or principal = :person or (principal = '' and written_by = 'extraction'))
   and (length(text) > 0 or length(old_text) > 0 or live = 1)"""
NOTE_TEXT = "select text from memory_op where stream = :stream and seq = :seq"
BLANK_NOTE = "update memory_op set text = :blank, old_text = :blank, live = 0 where stream = :stream and seq = :seq"
# The origin of an import or of an edited file is derived from its text; it is replaced by one with the note's number.
ORIGIN = """
select origin from memory_op
 where stream = :stream and seq = :seq
   and (substr(origin, 1, 7) = 'import:' or substr(origin, 1, 5) = 'edit:')"""
RENAME_OPERATIONS = "update memory_op set origin = :new where stream = :stream and origin = :origin"
RENAME_BATCH = "update memory_batch set origin = :new where stream = :stream and origin = :origin"
# Another person may have replaced the note, or restored it by undoing its removal: those rows contain the words too.
BLANK_OLD_COPIES = "update memory_op set old_text = :blank where stream = :stream and old_text = :text"
# An equal note of another person belongs to that person and stays.
BLANK_COPIES = """
update memory_op set text = :blank, live = 0
 where stream = :stream and text = :text and principal in ('', :person) returning seq"""


@dataclass(slots=True)
class Blanked:
    """The blanked data: counts, and notes by stream."""

    counts: Counter[str] = field(default_factory=Counter)
    notes: dict[str, set[int]] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)  # sessions with words of the person


def blank_person(trail: Trail, search: Search) -> Script[Blanked]:
    """Blank everything in the trail, and the person's data outside the journals."""
    done = Blanked()
    for session, found in sorted(trail.sessions.items()):
        yield from _blank_session(session, found, done)
    for session in sorted(trail.tainted):
        yield from void_claim(session)  # a model may have the words in its context now: the turn restarts
    yield from _blank_agent_messages(trail, done)
    for agent in sorted(trail.agents):
        for person in sorted(trail.people):
            yield from _blank_own(AgentName(agent), Principal(person), done)
    for agent in trail.reached:
        yield from _blank_notes(AgentName(agent), trail, search, done)
    done.counts["passed_on"] += len(trail.agent_messages)
    done.counts["quotations"] += sum(len(found.quoted) for found in trail.sessions.values())
    done.counts["notes"] += sum(len(seqs) for seqs in done.notes.values())
    return done


def _blank_session(session: SessionId, found: Found, done: Blanked) -> Script[None]:
    yield from halt_turn(session, found.answers)
    for turn in sorted(found.answers):
        done.counts["replies"] += len((yield from rows(REPLIES_OF_TURN, session=session, turn=turn, blank=b"")))
        yield from forget_digests(session, turn)
    gone = set(found.seqs)
    yield from many(BLANK_ENTRY, [{"session": session, "seq": seq, "blank": b""} for seq in sorted(gone)])
    for turn in sorted(found.quoted):
        yield from forget_digests(session, turn)
        gone |= {seq for (seq,) in (yield from rows(BLANK_ANSWER, session=session, turn=turn, blank=b""))}
    if not gone:
        return
    if found.is_theirs:
        done.heard.add(session)
    first = min(gone)
    voided = yield from rows(BLANK_SUMMARIES, session=session, first=first, blank=b"")
    yield from run(VOID_CONTEXTS, session=session, first=first)
    yield from run(VOID_EXTRACTION, session=session)
    yield from forget_answers(session)
    done.counts.update(sessions=1, entries=len(gone), summaries=len(voided))


def _blank_agent_messages(trail: Trail, done: Blanked) -> Script[None]:
    """Blank messages between agents at their receivers; drop those that wait."""
    boxes: list[str] = []
    for message in sorted(trail.mail):
        boxes += [row[0] for row in (yield from rows(LETTER, message=message, reason=FORGOTTEN, blank=b""))]
    done.counts["unanswered"] += yield from _decrement(boxes)
    for message in sorted({*trail.mail, *trail.messages}):
        done.counts["messages"] += len((yield from rows(BLANK_MESSAGE, message=message, blank=b"")))
    yield from drop_enclosures(trail.mail)


def _blank_own(agent: AgentName, person: Principal, done: Blanked) -> Script[None]:
    dropped = yield from rows(WAITING, agent=agent, person=person, reason=FORGOTTEN, blank=b"")
    done.counts["unanswered"] += yield from _decrement([mailbox for (mailbox,) in dropped])
    done.counts["replies"] += len((yield from rows(REPLIES_TO_THEM, agent=agent, person=person, blank=b"")))
    messages = [MessageId(row[0]) for row in (yield from rows(BLANK_INBOUND, agent=agent, person=person, blank=b""))]
    done.counts["messages"] += len(messages)
    yield from run(BLANK_TOMBSTONES, agent=agent, person=person, blank=b"")
    done.counts["attachments"] += yield from drop_enclosures_by(agent, person)
    yield from run(SHOWN_NAME, agent=agent, person=person)
    for (session,) in (yield from rows(TITLES, agent=agent, person=person)):
        yield from run(TURN_TITLES, session=session)
        left = yield from rows(REPLIES_OF_SESSION, session=session, person=person, blank=b"")
        done.counts["replies"] += len(left)


def _blank_notes(agent: AgentName, trail: Trail, search: Search, done: Blanked) -> Script[None]:
    yield from rows(LOCK_MEMORY, agent=agent)
    if search.terms or search.recalled:  # repeated under the locks of the agent's notes: more may have been added since
        yield from quoting_notes(search, agent)
    if agent in trail.agents:
        for person in sorted(trail.people):
            yield from _blank_their_notes(agent, Principal(person), done)
    others = [(stream, seq) for stream, seq in sorted(trail.notes) if stream.startswith(stream_of(agent, ""))]
    for stream, seq in others:
        ((text,),) = yield from rows(NOTE_TEXT, stream=stream, seq=seq)
        yield from _blank_note(stream, seq, done)
        yield from run(BLANK_OLD_COPIES, stream=stream, text=bytes(text) or b"\0", blank=b"")


def _blank_their_notes(agent: AgentName, person: Principal, done: Blanked) -> Script[None]:
    scope = person_scope(person)
    own = stream_of(agent, scope)
    noted = yield from SUSPECT_NOTE.rows(NOTES, agent=agent, scope=scope, person=person)
    found = [note for note in noted if note.is_theirs or origin_session(note.origin) in done.heard]
    for note in found:
        yield from _blank_note(note.stream, note.seq, done)
    for stream, text in sorted({(note.stream, note.text) for note in found if note.text and note.stream != own}):
        yield from run(BLANK_OLD_COPIES, stream=stream, text=text, blank=b"")
        for (seq,) in (yield from rows(BLANK_COPIES, stream=stream, text=text, person=person, blank=b"")):
            done.notes[stream].add(seq)


def _blank_note(stream: str, seq: int, done: Blanked) -> Script[None]:
    yield from run(BLANK_NOTE, stream=stream, seq=seq, blank=b"")
    done.notes.setdefault(stream, set()).add(seq)
    for (origin,) in (yield from rows(ORIGIN, stream=stream, seq=seq)):
        for renaming in (RENAME_OPERATIONS, RENAME_BATCH):
            yield from run(renaming, stream=stream, origin=origin, new=f"forgotten:{seq}")
