"""Session verbs shared by turns and commands: open, undo, delete.

A deletion blanks the words and keeps the envelopes (D25). Pending deliveries are cancelled; no notes are extracted. A
branch of the session keeps its own words and loses the inherited ones, so its summaries, which contain both, are
blanked too. Its undo count grows, which voids cached contexts and running summaries.
"""

from dataclasses import dataclass

from holdfast.inbox.attachment_sql import drop_enclosures_of
from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import Principal, SessionId
from holdfast.memory.cursor_sql import LOCK_LANE, cancel
from holdfast.outbox.reply_sql import BLANK
from holdfast.sessions.session import Purpose
from holdfast.store.script import Script, one, rows, run
from holdfast.turns.journal import Undone
from holdfast.turns.journal_sql import BranchLink, append, chain, undos

NEW_SESSION = """
insert into session (id, agent, mailbox, principal, purpose, state, last_seq, committed_seq, turns, summaries,
                     opened_at, active_at, idle_from)
values (:session, :agent, :mailbox, :principal, :purpose, 'open', 0, 0, 0, 0, :now, :now, :now)"""
GO_LIVE = "update mailbox set session_id = :session where id = :mailbox"
POSITION = "select last_seq, turns from session where id = :session"
TURN_START = "select first_seq from turn where session = :session and n = :n"
UNDONE = """
update session
   set last_seq = :last_seq, committed_seq = :last_seq, undo_count = undo_count + 1, active_at = :now
 where id = :session"""


def new_session(claim: Claim, session: SessionId, principal: Principal) -> Script[None]:
    yield from run(
        NEW_SESSION,
        session=session,
        agent=claim.agent,
        mailbox=claim.mailbox,
        principal=principal,
        purpose=Purpose.CONVERSATION.value,
    )
    yield from go_live(claim, session)


def go_live(claim: Claim, session: SessionId | None) -> Script[None]:
    yield from run(GO_LIVE, mailbox=claim.mailbox, session=session)


@dataclass(frozen=True, slots=True)
class PickedTurns:
    """The last effective turns of a session, newest first, and the ancestry that holds them."""

    last_seq: int
    turns: int
    picked: tuple[int, ...]
    links: tuple[BranchLink, ...]

    def owner(self, turn: int) -> SessionId:
        """The session that holds a turn: this one, or one of its ancestors."""
        return next(link.session for link in self.links if link.from_turn < turn)

    @property
    def by_session(self) -> list[tuple[SessionId, list[int]]]:
        owners = dict.fromkeys(self.owner(turn) for turn in self.picked)
        return [(owner, [turn for turn in self.picked if self.owner(turn) == owner]) for owner in owners]


def pick_turns(session: SessionId, count: int) -> Script[PickedTurns]:
    row = yield from one(POSITION, session=session)
    last_seq, turns = row or (0, 0)
    links = yield from chain(session)
    voided = [entry.body for entry in (yield from undos(links)) if isinstance(entry.body, Undone)]
    picked: list[int] = []
    turn = turns
    while turn > 0 and len(picked) < count:
        if not any(undo.first_turn <= turn <= undo.last_turn for undo in voided):
            picked.append(turn)
        turn -= 1
    return PickedTurns(last_seq, turns, tuple(picked), links)


def undo_turns(session: SessionId, claim: Claim | None, found: PickedTurns, *, by: str) -> Script[int]:
    """Append an undo of the picked turns; the number of the last entry. Inherited turns are hidden in this session
    only."""
    if not found.picked:
        return found.last_seq
    first = found.picked[-1]
    start = yield from one(TURN_START, session=found.owner(first), n=first)
    undo = Undone(first_turn=first, last_turn=found.turns, from_seq=start[0] if start else 1, by=by)
    last_seq = yield from append(session, 0, found.last_seq, (undo,), claim)
    yield from run(UNDONE, session=session, last_seq=last_seq)
    yield from cancel(session, found.picked)
    return last_seq


# --- deletion ----------------------------------------------------------------------------------------

BLANK_ENTRIES = "update entry set body = :blank, tokens = 0 where session = :session and kind <> 'undo'"
# Removes every hash of a message's text: that of the body, and one in an event id made by earlier releases.
UNHASHED = """
body_hash = :blank, request = null,
event_id = case when channel = 'openai' and substr(event_id, 1, 5) = 'body.' then 'forgotten.' || message
                else event_id end"""
BLANK_INBOUND = f"update inbound set body = :blank, directory = null, repo = null, {UNHASHED} where session = :session"
BLANK_REPLIES = f"{BLANK} where session = :session"
BLANK_DIGESTS = "update approval set digest = null, salt = null where session = :session"
BLANK_SUMMARIES = "update summary set body = :blank where session = :session"
BRANCHES = """
with recursive branch (id) as (
  select id from session where parent_id = :session and fork_seq > 0
  union
  select session.id from session join branch on session.parent_id = branch.id where session.fork_seq > 0)"""
LOCK_LINE = f"""{BRANCHES}
select id from session where id = :session or id in (select id from branch) order by id /*lock*/"""
BLANK_BRANCHES = f"{BRANCHES} update summary set body = :blank where session in (select id from branch)"
VOID_BRANCHES = f"{BRANCHES} update session set undo_count = undo_count + 1 where id in (select id from branch)"
BLANK_TITLES = "update turn set title = null where session = :session and title is not null"
LANES = """
select distinct agent, provider, place from delivery
 where stream = :session and state = 'scheduled' order by agent, provider, place"""
CANCEL = """
update delivery set state = 'dropped', reason = 'deleted', settled_at = :now, payload_hash = null
 where stream = :session and state = 'scheduled'"""
FORGET_FINALISATIONS = "delete from finalisation where session = :session"
DELETED = """
update session
   set state = 'deleted', closed_at = :now, reason = 'deleted', title = null, title_key = null
 where id = :session"""


def lock_line(session: SessionId) -> Script[None]:
    """Lock the session and its branches. A summary that is committed afterwards is found to be void."""
    yield from run(LOCK_LINE, session=session)


def blank_session(session: SessionId) -> Script[None]:
    """Blank the words and cancel unsent deliveries.

    The caller holds the session and its branches (`lock_line`). This locks the lanes too, so that no dispatcher takes a
    delivery in between.
    """
    for agent, provider, place in (yield from rows(LANES, session=session)):
        yield from run(LOCK_LANE, agent=agent, provider=provider, place=place)
    yield from drop_enclosures_of(session)
    for blanking in (BLANK_ENTRIES, BLANK_INBOUND, BLANK_REPLIES, BLANK_SUMMARIES, BLANK_BRANCHES):
        yield from run(blanking, session=session, blank=b"")
    for ending in (VOID_BRANCHES, BLANK_TITLES, BLANK_DIGESTS, CANCEL, FORGET_FINALISATIONS, DELETED):
        yield from run(ending, session=session)
