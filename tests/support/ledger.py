"""The counters, sequences, fences and cursors that must agree in every store at rest.

Each check is one query for the rows that break a promise; an honest store answers all of them with nothing.
"""

from holdfast.store.script import Script, rows

CHECKS = {
    "the audit trail has no gap and ends at its head": """
        select count(*), coalesce(max(n), 0), (select coalesce(max(n), 0) from action_head) from action
        having count(*) <> coalesce(max(n), 0)
            or coalesce(max(n), 0) <> (select coalesce(max(n), 0) from action_head)""",
    "a free lane is due if and only if it has work": """
        select agent, provider, place, due_at from lane
         where owner is null and due_at is null
           and exists (select 1 from delivery
                        where delivery.agent = lane.agent and delivery.provider = lane.provider
                          and delivery.place = lane.place and state in ('scheduled', 'sending', 'uncertain'))""",
    "a delivery was claimed under the fence of its lane": """
        select id, fence, lease_fence from delivery where fence <> lease_fence""",
    "the settled mark never passes what is on its way": """
        select cursor.provider, cursor.stream, settled_seq, from_seq from cursor
          join delivery on delivery.provider = cursor.provider and delivery.stream = cursor.stream
         where op in ('retain', 'remember') and state in ('scheduled', 'sending', 'uncertain') and late = 0
           and from_seq <= settled_seq
        union all
        select provider, stream, settled_seq, scheduled_seq from cursor where settled_seq > scheduled_seq""",
    "depth is the number of unfinished messages": """
        select id, depth from mailbox
         where depth <> (select count(*) from inbound
                          where inbound.mailbox = mailbox.id and state in ('waiting', 'in_turn'))""",
    "a mailbox is ready if and only if it has mail": """
        select id, depth, ready_at from mailbox where (depth = 0) <> (ready_at is null)""",
    "messages are numbered within their mailbox": """
        select mailbox, seq from inbound group by mailbox, seq having count(*) > 1
        union all
        select mailbox.id, max(seq) from mailbox join inbound on inbound.mailbox = mailbox.id
         group by mailbox.id, last_seq having max(seq) > last_seq""",
    "a message is in a turn if and only if the turn is open": """
        select inbound.message, inbound.turn from inbound
          left join session on session.id = inbound.session
          left join mailbox on mailbox.id = inbound.mailbox
         where inbound.state = 'in_turn'
           and (session.open_turn is null or session.open_turn <> inbound.turn or mailbox.session_id <> session.id)""",
    "a session's open turn is its only one, and its last": """
        select session.id, turn.n from session join turn on turn.session = session.id
         where (turn.closed_at is null) <> (session.open_turn is not null and session.open_turn = turn.n)
        union all
        select id, open_turn from session where open_turn is not null and open_turn <> turns""",
    "what is committed is no more than what is written": """
        select id, committed_seq, last_seq from session
         where committed_seq > last_seq or (open_turn is null and committed_seq <> last_seq)""",
    "entries have no gaps and no copies": """
        select session.id, count(entry.seq), session.last_seq - session.fork_seq
          from session left join entry on entry.session = session.id
         group by session.id, session.last_seq, session.fork_seq
        having count(entry.seq) <> session.last_seq - session.fork_seq
            or coalesce(min(entry.seq), session.fork_seq + 1) <> session.fork_seq + 1
            or coalesce(max(entry.seq), session.last_seq) <> session.last_seq""",
    "turns have no gaps": """
        select session.id, count(turn.n), session.turns - session.fork_turn
          from session left join turn on turn.session = session.id
         group by session.id, session.turns, session.fork_turn
        having count(turn.n) <> session.turns - session.fork_turn
            or coalesce(min(turn.n), session.fork_turn + 1) <> session.fork_turn + 1
            or coalesce(max(turn.n), session.turns) <> session.turns""",
    "an entry of a turn lies within it": """
        select entry.session, entry.seq, entry.turn from entry
          left join turn on turn.session = entry.session and turn.n = entry.turn
         where entry.turn > 0
           and (turn.n is null or entry.seq < turn.first_seq or entry.seq > turn.last_seq)""",
    "the writer's fence is the lease's fence": """
        select session, seq, fence, lease_fence from entry where fence <> lease_fence
        union all
        select session, n, fence, lease_fence from turn where fence <> lease_fence""",
    "fences never go back": """
        select later.session, later.n, later.fence from turn as later
          join turn as earlier on earlier.session = later.session and earlier.mailbox = later.mailbox
         where earlier.n < later.n and earlier.fence > later.fence""",
    "summaries are numbered without gaps and cover one after the other": """
        select session.id, count(summary.n), session.summaries - session.fork_n
          from session left join summary on summary.session = session.id
         group by session.id, session.summaries, session.fork_n
        having count(summary.n) <> session.summaries - session.fork_n
        union all
        select session, n, covers_from from summary
         where covers_from > covers_through or covers_through > head_seq or base_n >= n""",
    "a live session is open and belongs to its mailbox": """
        select mailbox.id, mailbox.session_id, session.state from mailbox
          left join session on session.id = mailbox.session_id
         where mailbox.session_id is not null
           and (session.id is null or session.state not in ('open', 'expiring') or session.mailbox <> mailbox.id)""",
    "a cursor stands within what is committed": """
        select provider, stream, scheduled_seq from cursor join session on session.id = cursor.stream
         where settled_seq > scheduled_seq or scheduled_seq > committed_seq""",
    "units of one provider never overlap": """
        select a.id, b.id from delivery as a
          join delivery as b on b.provider = a.provider and b.stream = a.stream and b.id > a.id
         where a.op = 'retain' and b.op = 'retain' and a.state <> 'dropped' and b.state <> 'dropped'
           and a.from_seq <= b.through_seq and b.from_seq <= a.through_seq""",
    "a unit is made of whole turns of one place and one principal": """
        select delivery.id, turn.n from delivery
          join turn on turn.session = delivery.stream
                   and turn.n between delivery.from_turn and delivery.through_turn
         where delivery.op = 'retain'
           and (turn.place <> delivery.place or turn.principal <> delivery.principal
                or turn.first_seq < delivery.from_seq or turn.last_seq > delivery.through_seq)""",
    "only conversations have cursors": """
        select cursor.stream, session.purpose from cursor join session on session.id = cursor.stream
         where session.purpose <> 'conversation'""",
    "a session expires if and only if the end of its epoch is under way": """
        select session.id, session.epoch, finalisation.step from session
          left join finalisation on finalisation.session = session.id and finalisation.epoch = session.epoch
         where (session.state = 'expiring') <> (finalisation.ended_at is null and finalisation.id is not null)
           and session.state <> 'closed'""",
    "every epoch that ended has one end": """
        select session.id, session.epoch, count(finalisation.id) from session
          left join finalisation on finalisation.session = session.id
         where session.state <> 'deleted'
         group by session.id, session.epoch, session.state
        having count(finalisation.id) <> session.epoch - case when session.state = 'open' then 1 else 0 end""",
    "no entry is extracted from twice, and a deleted session not at all": """
        select a.id, b.id from finalisation as a join finalisation as b on b.session = a.session and b.epoch > a.epoch
         where a.step <> 'cancelled' and b.step <> 'cancelled' and b.from_seq <= a.through_seq
        union all
        select finalisation.id, session.state from finalisation join session on session.id = finalisation.session
         where session.state = 'deleted' or finalisation.through_seq > session.committed_seq""",
    "an end that is taken belongs to a node and is not over": """
        select id, owner from finalisation
         where owner is not null
           and (ended_at is not null or not exists (select 1 from node where node.id = finalisation.owner))""",
    "memory is written at most once by an end": """
        select origin, count(*) from memory_batch where origin like 'finish:%' group by stream, origin
        having count(*) > 1""",
    "a claim belongs to a node": """
        select id, owner from mailbox
         where owner is not null and not exists (select 1 from node where node.id = mailbox.owner)""",
}


def faults_in() -> Script[list[str]]:
    """Every broken promise, in words."""
    faults: list[str] = []
    for promise, query in CHECKS.items():
        faults.extend(f"{promise}: {row}" for row in (yield from rows(query)))
    return faults
