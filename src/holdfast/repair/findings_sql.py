"""Looking for contradictions between the rows of a store. Nothing is locked and nothing changes.

Each query returns what contradicts a promise of the store: an id, a sentence and a time. In a store without faults each
of them returns nothing, whether or not processes work in it: a claim counts as orphaned only when its node gave no
sign of life for a whole lease.
"""

from collections.abc import Mapping, Sequence

from holdfast.kernel.ids import Instant
from holdfast.repair.finding import FaultEvidence
from holdfast.store.script import Script, rows, verb

SHOWN_MAX = 100  # rows of evidence of one kind
SUSPECT_MIN = 2  # failures of one delivery between which the provider took others
OPEN_DELIVERY = "state in ('scheduled', 'sending', 'uncertain')"


def _gone(table: str) -> str:
    return f"""
{table}.owner is not null
   and not exists (select 1 from node where node.id = {table}.owner
                      and heartbeat_at > cast(:now as int8) - cast(:lease_ms as int8))"""


NODE_DEAD = """
select id, 'on ' || host, heartbeat_at from node
 where heartbeat_at <= cast(:now as int8) - cast(:lease_ms as int8)"""
CLAIM_ORPHANED = f"""
select 'mailbox ' || id, 'claimed by ' || owner, claimed_at from mailbox where {_gone("mailbox")}
union all
select 'lane ' || provider || ' ' || place, 'claimed by ' || owner, null from lane where {_gone("lane")}
union all
select 'extraction ' || id, 'claimed by ' || owner, started_at from finalisation where {_gone("finalisation")}
union all
select 'operation ' || id, kind || ' of ' || owner, started_at from operation
 where ended_at is null and {_gone("operation")}"""
REPLY_IS_LEFT = f"state = 'attempting' and (owner is null or {_gone('reply')})"
REPLY_ATTEMPTING = f"""
select id, agent || ' over ' || channel || ' to ' || address, sent_at from reply where {REPLY_IS_LEFT}"""
BLOCKS = f"""
state in ('scheduled', 'sending', 'uncertain') and suspect >= {SUSPECT_MIN}
   and exists (select 1 from delivery as later
                where later.agent = delivery.agent and later.provider = delivery.provider
                  and later.place = delivery.place and later.n > delivery.n
                  and later.state in ('scheduled', 'sending', 'uncertain'))
   and not exists (select 1 from delivery as earlier
                    where earlier.agent = delivery.agent and earlier.provider = delivery.provider
                      and earlier.place = delivery.place and earlier.n < delivery.n
                      and earlier.state in ('scheduled', 'sending', 'uncertain'))"""
LANE_BLOCKED = f"""
select id, agent || ' to ' || provider || ': ' || coalesce(reason, 'no reason is known'),
       coalesce(failing_at, uncertain_at, at) from delivery where {BLOCKS}"""
LANE_ASLEEP = f"""
select delivery.agent || ' ' || delivery.provider || ' ' || delivery.place,
       cast(count(*) as text) || ' open deliveries', min(delivery.at)
  from delivery left join lane on lane.agent = delivery.agent and lane.provider = delivery.provider
                              and lane.place = delivery.place
 where delivery.{OPEN_DELIVERY} and lane.owner is null and lane.due_at is null
 group by delivery.agent, delivery.provider, delivery.place"""
OPEN_MAIL = "inbound.mailbox = mailbox.id and inbound.state in ('waiting', 'in_turn')"
MAILBOX_ASLEEP = f"""
select mailbox.id, agent || ' at ' || mailbox.address, min(inbound.at)
  from mailbox join inbound on {OPEN_MAIL}
 where mailbox.owner is null and mailbox.ready_at is null group by mailbox.id, agent, mailbox.address"""
MISCOUNTED = f"depth <> (select count(*) from inbound where {OPEN_MAIL})"
MAILBOX_MISCOUNTED = f"""
select id, 'counts ' || cast(depth as text) || ', has ' ||
       cast((select count(*) from inbound where {OPEN_MAIL}) as text), null from mailbox where {MISCOUNTED}"""
STRANDED = """
inbound.state = 'in_turn'
   and (inbound.turn is null
        or not exists (select 1 from turn where turn.session = inbound.session and turn.n = inbound.turn)
        or exists (select 1 from turn where turn.session = inbound.session and turn.n = inbound.turn
                      and turn.closed_at is not null))"""
MESSAGE_STRANDED = f"""
select message, 'in turn ' || coalesce(cast(turn as text), '?') || ' of ' || coalesce(session, '?'), at from inbound
 where {STRANDED}"""
ATTACHMENT_MISSING = """
select enclosure.message, enclosure.name || ', ' || enclosure.hash, inbound.at
  from enclosure left join inbound on inbound.message = enclosure.message
 where not exists (select 1 from attachment where attachment.hash = enclosure.hash)"""
UNUSED = "not exists (select 1 from enclosure where enclosure.hash = attachment.hash)"
ATTACHMENT_ORPHANED = f"select hash, cast(size as text) || ' bytes', at from attachment where {UNUSED}"
# An open delivery that was never parked: a replayed one lies behind the mark.
UNPROVED = """
select min(from_seq) from delivery
 where delivery.provider = cursor.provider and delivery.stream = cursor.stream and op in ('retain', 'remember')
   and late = 0 and state in ('scheduled', 'sending', 'uncertain')"""
SETTLED_AHEAD = f"(settled_seq > scheduled_seq or ({UNPROVED}) <= settled_seq)"
LAST_UNIT = """
(select max(through_turn) from delivery
  where delivery.provider = cursor.provider and delivery.stream = cursor.stream and op = 'retain')"""
# Turns behind the last delivery of the stream that the cursor calls scheduled. Undone turns are skipped, so a session
# with an undo is left out.
UNSCHEDULED = f"""
exists (select 1 from turn
         where turn.session = cursor.stream and turn.closed_at is not null and turn.n > {LAST_UNIT}
           and turn.first_seq <= cursor.scheduled_seq)
   and exists (select 1 from session where session.id = cursor.stream and session.state <> 'deleted')
   and not exists (select 1 from entry where entry.session = cursor.stream and entry.kind = 'undo')"""
CURSOR_AHEAD = f"""
select provider || ':' || stream, 'settled through entry ' || cast(settled_seq as text), null from cursor
 where {SETTLED_AHEAD}
union all
select provider || ':' || stream, 'scheduled through entry ' || cast(scheduled_seq as text), null from cursor
 where {UNSCHEDULED}"""
JOURNAL_GAP = """
select session.id, cast(count(entry.seq) as text) || ' of ' || cast(session.last_seq - session.fork_seq as text)
       || ' entries', session.opened_at
  from session left join entry on entry.session = session.id
 group by session.id, session.last_seq, session.fork_seq, session.opened_at
having count(entry.seq) <> session.last_seq - session.fork_seq
union all
select session.id, cast(count(turn.n) as text) || ' of ' || cast(session.turns - session.fork_turn as text)
       || ' turns', session.opened_at
  from session left join turn on turn.session = session.id
 group by session.id, session.turns, session.fork_turn, session.opened_at
having count(turn.n) <> session.turns - session.fork_turn"""
TRAIL_GAP = """
select 'audit trail',
       cast(count(*) as text) || ' rows, the newest is number ' || cast(coalesce(max(n), 0) as text), null
  from action
having count(*) <> coalesce(max(n), 0) or coalesce(max(n), 0) <> (select coalesce(max(n), 0) from action_head)"""

QUERIES: Mapping[str, str] = {
    "journal_gap": JOURNAL_GAP,
    "trail_gap": TRAIL_GAP,
    "message_stranded": MESSAGE_STRANDED,
    "attachment_missing": ATTACHMENT_MISSING,
    "node_dead": NODE_DEAD,
    "claim_orphaned": CLAIM_ORPHANED,
    "reply_attempting": REPLY_ATTEMPTING,
    "lane_blocked": LANE_BLOCKED,
    "lane_asleep": LANE_ASLEEP,
    "mailbox_asleep": MAILBOX_ASLEEP,
    "mailbox_miscounted": MAILBOX_MISCOUNTED,
    "cursor_ahead": CURSOR_AHEAD,
    "attachment_orphaned": ATTACHMENT_ORPHANED,
}


@verb
def read_findings(*, lease_ms: int) -> Script[Mapping[str, Sequence[FaultEvidence]]]:
    """The evidence by the code of the fault, without faults that have none; one row above `SHOWN_MAX` means more."""
    found: dict[str, Sequence[FaultEvidence]] = {}
    for code, query in QUERIES.items():
        seen = yield from rows(f"select * from ({query}) as found limit {SHOWN_MAX + 1}", lease_ms=lease_ms)
        if seen:
            found[code] = [
                FaultEvidence(subject=subject, what=what or "", since=None if since is None else Instant(since))
                for subject, what, since in seen
            ]
    return found
