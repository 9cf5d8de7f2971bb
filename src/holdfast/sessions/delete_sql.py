"""Deletion: blanks the words and keeps the envelopes (D25). Pending deliveries are cancelled; no notes are extracted.

A branch of the session keeps its own words and loses the inherited ones, so its summaries, which contain both, are
blanked too. Its undo count grows, which voids cached contexts and running summaries.
"""

from holdfast.inbox.attachment_sql import drop_enclosures_of
from holdfast.kernel.ids import SessionId
from holdfast.memory.cursor_sql import LOCK_LANE
from holdfast.outbox.reply_sql import BLANK
from holdfast.store.script import Script, rows, run

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
