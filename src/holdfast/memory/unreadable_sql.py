"""Unreadable turns: their session was deleted before the request to forget a person (D25).

A deletion blanks the journal but not the providers, so whether an answer to another person repeats the forgotten words
can no longer be determined. The rows still have the principal of each turn and message, so the providers erase every
turn of the session, and of its branches, from the first one that could know the words.
"""

from holdfast.kernel.ids import SessionId
from holdfast.memory.provenance_sql import Trail
from holdfast.store.script import Script, one, rows

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
PASSED_ON = "select session, turn from inbound where message = :message and session is not null and turn is not null"
UNREADABLE = """
with recursive line (id) as (
  select id from session where id = :session
  union
  select session.id from session join line on session.parent_id = line.id
   where session.fork_seq > 0 and session.fork_turn >= :forked)
select turn.session, turn.n, session.agent from line join session on session.id = line.id
  join turn on turn.session = session.id
 where session.state = 'deleted' and turn.n >= :first"""


def find_unreadable(trail: Trail) -> Script[None]:
    """Add to the trail the blanked turns that may repeat the words."""
    known: list[tuple[SessionId, int, int]] = []
    heard = {session for session, found in trail.sessions.items() if found.agent in trail.agents}
    for person in sorted(trail.people):
        for agent in sorted(trail.agents):
            heard |= {SessionId(row[0]) for row in (yield from rows(DELETED, person=person, agent=agent))}
        for session in sorted(heard):
            first, forked = (yield from one(HEARD_FROM, session=session, person=person)) or (None, None)
            known += [(session, first, forked)] if first is not None else []
    for message in sorted(trail.mail):
        known += [(SessionId(session), n, n) for session, n in (yield from rows(PASSED_ON, message=message))]
    for session, first, forked in known:
        for deleted, n, agent in (yield from rows(UNREADABLE, session=session, first=first, forked=forked)):
            trail.found(SessionId(deleted), agent).unreadable.add(n)
