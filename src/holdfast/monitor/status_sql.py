"""Reading the status of a store in one snapshot. Every query reads the front of an index of open work."""

from collections.abc import Iterator, Sequence

from holdfast.kernel.ids import Instant
from holdfast.monitor.queues import Queues
from holdfast.monitor.queues_sql import read_queues
from holdfast.monitor.status import Need, NeedKind, Node, RunningTurn, StoreStatus, Urgency, ordered, plural
from holdfast.monitor.trace import NodeRun
from holdfast.monitor.undecided import STUCK_SUSPECT
from holdfast.store.script import Columns, Query, Row, Script, rows, together, verb
from holdfast.turns.agent_pause import AgentPause
from holdfast.turns.agent_pause_sql import list_pauses

SHOWN_MAX = 50  # needs of one kind
UNSERVED_MS = 30_000  # mail that waits longer while a process serves is stuck
LOST_SHOWN_MS = 3_600_000
RUNS_KEPT_MS = 90 * 24 * 3_600_000
NODE = Columns(Node)
NODES = f"select {NODE} from node order by started_at, id"
PROVED = """
select max(at) from (select at from proof where id = 1 union all select heartbeat_at from node) as proofs"""
RUN = Columns(NodeRun)
LOST = f"""
select {RUN} from node_run
 where ending = 'lost' and ended_at >= cast(:now as int8) - cast(:shown_ms as int8)
   and started_at >= cast(:now as int8) - cast(:kept_ms as int8) order by ended_at desc limit {SHOWN_MAX}"""
RUNNING_TURN = Columns(
    RunningTurn,
    "turn",
    agent="mailbox.agent",
    message="inbound.message",
    chat="inbound.conversation",
    is_claimed="mailbox.owner is not null and exists (select 1 from node where node.id = mailbox.owner)",
)
# `coalesce` keeps the planner from the index of sessions, which has every message.
RUNNING = f"""
select {RUNNING_TURN}
  from inbound join mailbox on mailbox.id = inbound.mailbox
  join turn on turn.session = coalesce(inbound.session, '') and turn.n = inbound.turn
 where inbound.state in ('waiting', 'in_turn') and inbound.state = 'in_turn' and turn.closed_at is null
 order by turn.opened_at limit 500"""
APPROVALS = f"""
select approval.id, approval.tool, mailbox.agent, mailbox.address, approval.asked_at, approval.due_at,
       approval.principal
  from approval join mailbox on mailbox.id = approval.mailbox
 where approval.decided_at is null order by approval.due_at, approval.id limit {SHOWN_MAX}"""
# Mail that nobody took, although a process serves.
UNSERVED = f"""
select agent, address, ready_at, depth from mailbox
 where owner is null and ready_at is not null and paused <> 1
   and ready_at < cast(:now as int8) - cast(:unserved_ms as int8)
   and exists (select 1 from node)
 order by ready_at limit {SHOWN_MAX}"""
FAILING = f"""
select id, agent, provider, place, attempt, coalesce(failing_at, uncertain_at, at), reason, due_at from delivery
 where state in ('scheduled', 'sending', 'uncertain') and suspect >= {STUCK_SUSPECT}
 order by agent, provider, place, n limit {SHOWN_MAX}"""
# A provider without a delivery since its oldest failure is away, and its lanes go on by themselves.
AWAY = """
select agent, provider, count(*), min(failing_at), max(reason), min(due_at) from delivery
 where state in ('scheduled', 'sending', 'uncertain') and failing_at is not null and suspect < 2
 group by agent, provider order by agent, provider"""
UNDECIDED_DELIVERIES = """
select agent, provider, state, count(*), min(coalesce(settled_at, uncertain_at, at)) from delivery
 where state = 'parked' and decided_by is null group by agent, provider, state"""
UNCERTAIN_DELIVERIES = """
select agent, provider, state, count(*), min(coalesce(uncertain_at, at)) from delivery
 where state in ('scheduled', 'sending', 'uncertain') and state = 'uncertain' group by agent, provider, state"""
UNDECIDED_REPLIES = """
select agent, channel, state, count(*), min(coalesce(settled_at, at)) from reply
 where state <> 'delivered' and state in ('uncertain', 'failed') and decided_by is null
 group by agent, channel, state"""
EXTRACTIONS = f"""
select finalisation.id, session.agent, finalisation.ended_at, finalisation.reason
  from finalisation join session on session.id = finalisation.session
 where finalisation.step = 'failed' order by finalisation.ended_at desc limit {SHOWN_MAX}"""
PAIRINGS = """
select agent, channel, count(*), min(asked_at) from pairing
 where decided_at is null and asked_at > cast(:now as int8) - 86400000 group by agent, channel"""


@verb
def read_status() -> Script[StoreStatus]:
    queues = yield from read_queues()
    about = {"shown_ms": LOST_SHOWN_MS, "kept_ms": RUNS_KEPT_MS, "unserved_ms": UNSERVED_MS}
    wanted = (
        *(NODES, PROVED, LOST, RUNNING, APPROVALS, UNSERVED, FAILING, AWAY),
        *(UNDECIDED_DELIVERIES, UNCERTAIN_DELIVERIES, UNDECIDED_REPLIES, PAIRINGS),
    )
    found = yield from together(*(Query(sql, dict(about)) for sql in wanted))
    nodes, proved, lost, running, approvals, unserved, failing, away, parked, uncertain, replies, pairings = found
    extractions = yield from rows(EXTRACTIONS)
    paused = yield from list_pauses()
    turns = [RUNNING_TURN.value(row) for row in running]
    needs = (
        *_not_serving(nodes, queues),
        *_approvals(approvals),
        *_turns(turns, is_served=bool(nodes)),
        *_unserved(unserved),
        *_pauses(paused, queues),
        *_lanes(failing),
        *_away(away),
        *_deliveries([*parked, *uncertain]),
        *_replies(replies),
        *_extractions(extractions),
        *_pairings(pairings),
    )
    return StoreStatus(
        at=queues.at,
        queues=queues,
        needs=ordered(needs),
        running=turns,
        nodes=[NODE.value(row) for row in nodes],
        proved_at=Instant(proved[0][0]) if proved[0][0] is not None else None,
        paused=paused,
        lost=[RUN.value(row) for row in lost],
    )


def _not_serving(nodes: Sequence[Row], queues: Queues) -> Iterator[Need]:
    waiting = sum(queue.count("waiting", "in_turn") for queue in queues.messages.values())
    if nodes or not waiting:
        return
    oldest = min(queue.oldest_at for queue in queues.messages.values() if queue.oldest_at is not None)
    yield Need(
        urgency=Urgency.STUCK,
        kind=NeedKind.NOT_SERVING,
        agent="",
        what=f"No process serves this store, and {plural(waiting, 'message waits', 'messages wait')}",
        since=oldest,
        command="holdfast up",
    )


def _approvals(found: Sequence[Row]) -> Iterator[Need]:
    for ident, tool, agent, address, asked_at, due_at, principal in found:
        yield Need(
            urgency=Urgency.HOLDS_UP,
            kind=NeedKind.APPROVAL,
            agent=agent,
            what=f"{agent} wants to run {tool}",
            evidence=f"asked by {principal} at {address}",
            since=asked_at,
            until=due_at,
            subject=ident,
            command=f"holdfast approvals show {ident}",
        )


def _turns(turns: Sequence[RunningTurn], *, is_served: bool) -> Iterator[Need]:
    """Turns whose process is gone. One that waits for a person has no process, and that is right."""
    if not is_served:
        return  # `_not_serving` says it
    for turn in turns:
        if not turn.is_claimed and turn.phase != "awaiting":
            yield Need(
                urgency=Urgency.MENDS,
                kind=NeedKind.TURN,
                agent=turn.agent,
                what=f"Turn {turn.n} of {turn.session} lost its process and resumes",
                evidence=f"attempt {turn.attempt}, last on {turn.node or 'an unknown process'}",
                since=turn.opened_at,
                subject=turn.message,
                command=f"holdfast trace {turn.message}",
            )


def _unserved(found: Sequence[Row]) -> Iterator[Need]:
    for agent, address, ready_at, depth in found:
        yield Need(
            urgency=Urgency.STUCK,
            kind=NeedKind.MAIL,
            agent=agent,
            what=f"{plural(depth, 'message waits', 'messages wait')} at {address} although a process serves",
            since=ready_at,
            command="holdfast log --level warning",
        )


def _pauses(paused: Sequence[AgentPause], queues: Queues) -> Iterator[Need]:
    for pause in paused:
        queue = queues.messages.get(pause.agent)
        waiting = 0 if queue is None else queue.count("waiting")
        yield Need(
            urgency=Urgency.DECIDE,
            kind=NeedKind.PAUSE,
            agent=pause.agent,
            what=f"{pause.agent} is paused by {pause.who} and begins no turn",
            evidence=plural(waiting, "message waits", "messages wait"),
            since=pause.paused_at,
            subject=pause.agent,
            command=f"holdfast resume {pause.agent}",
        )


def _lanes(found: Sequence[Row]) -> Iterator[Need]:
    for ident, agent, provider, place, attempt, since, reason, due_at in found:
        yield Need(
            urgency=Urgency.STUCK,
            name=provider,
            kind=NeedKind.LANE,
            agent=agent,
            what=f"{provider} fails on one delivery of {agent} ({attempt} attempts) and takes others",
            evidence=f"{reason or 'no reason is known'}; {place} waits behind it",
            since=since,
            until=due_at,
            subject=ident,
            command=f"holdfast deliveries --provider {provider}",
        )


def _away(found: Sequence[Row]) -> Iterator[Need]:
    for agent, provider, count, since, reason, due_at in found:
        yield Need(
            urgency=Urgency.MENDS,
            name=provider,
            kind=NeedKind.DELIVERY,
            agent=agent,
            what=f"{provider} takes no deliveries of {agent}; {count} tried again in order, none lost",
            evidence=reason or "",
            since=since,
            until=due_at,
            command=f"holdfast deliveries --provider {provider}",
        )


def _deliveries(found: Sequence[Row]) -> Iterator[Need]:
    for agent, provider, state, count, since in found:
        words = {"parked": "parked until replayed", "uncertain": "uncertain, the provider is asked"}[state]
        yield Need(
            urgency=Urgency.DECIDE if state == "parked" else Urgency.MENDS,
            name=provider,
            kind=NeedKind.DELIVERY,
            agent=agent,
            what=f"{plural(count, 'delivery', 'deliveries')} of {agent} to {provider}: {words}",
            since=since,
            count=count if state == "parked" else 1,
            command=f"holdfast deliveries --state {state}",
        )


def _replies(found: Sequence[Row]) -> Iterator[Need]:
    for agent, channel, state, count, since in found:
        words = {"uncertain": "may be posted once, twice or not at all", "failed": "not taken by the platform"}[state]
        yield Need(
            urgency=Urgency.DECIDE,
            name=channel,
            kind=NeedKind.REPLY,
            agent=agent,
            what=f"{plural(count, 'reply', 'replies')} of {agent} over {channel}: {words}",
            since=since,
            count=count,
            command=f"holdfast replies --state {state}",
        )


def _extractions(found: Sequence[Row]) -> Iterator[Need]:
    for ident, agent, ended_at, reason in found:
        yield Need(
            urgency=Urgency.DECIDE,
            kind=NeedKind.EXTRACTION,
            agent=agent,
            what=f"What a session of {agent} taught was not extracted",
            evidence=reason or "",
            since=ended_at or Instant(0),
            subject=ident,
            command=f"holdfast retry-extraction {ident}",
        )


def _pairings(found: Sequence[Row]) -> Iterator[Need]:
    for agent, channel, count, since in found:
        yield Need(
            urgency=Urgency.DECIDE,
            name=channel,
            kind=NeedKind.PAIRING,
            agent=agent,
            what=f"{plural(count, 'person asks', 'people ask')} {agent} on {channel} to be let in",
            since=since,
            count=count,
            command="holdfast pairs",
        )
