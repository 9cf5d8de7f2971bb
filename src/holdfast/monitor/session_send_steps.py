"""The steps of a session after its turns' commits: replies, deliveries, and what happened to the processes."""

from collections.abc import Iterator

from holdfast.monitor.send_steps import DELIVERY_MARKS, REPLY_MARKS
from holdfast.monitor.session_facts import SessionDelivery, SessionPart
from holdfast.monitor.session_step import REPLY, UPKEEP, Kind, SessionStep, known
from holdfast.monitor.timeline_step import Mark
from holdfast.monitor.trace import TracedReply, TracedTurn
from holdfast.outbox.post import PULLED


def reply_steps(reply: TracedReply, turn: TracedTurn, facts: SessionPart) -> Iterator[SessionStep]:
    whither = f"to {reply.address}" if reply.channel == "agent" else f"over {reply.channel}"
    about = known(
        state=reply.state, reply=reply.id, attempts=reply.attempt or None, receipt=reply.receipt, reason=reply.reason
    )
    pulled = reply.channel in PULLED
    for attempt in () if pulled else facts.attempts.get(("reply", reply.n), ()):
        if attempt.ended_at != reply.settled_at:
            yield SessionStep(
                lane=REPLY,
                kind=Kind.OURS,
                at=attempt.started_at or attempt.ended_at,
                until=attempt.ended_at,
                what=f"Attempt {attempt.attempt} {whither}: {attempt.outcome}",
                label=attempt.outcome,
                mark=Mark.UNCERTAIN if attempt.outcome == "uncertain" else Mark.FAILED,
                facts=known(
                    status=attempt.status,
                    request_id=attempt.request_id,
                    reason=attempt.reason,
                    extract=attempt.extract,
                    node=attempt.node,
                ),
                turn=turn.n,
            )
    began = reply.settled_at or reply.at if pulled else reply.sent_at or reply.at
    is_open = reply.state in {"pending", "attempting"} and not pulled
    until = None if is_open or pulled else reply.settled_at
    yield SessionStep(
        lane=REPLY,
        kind=Kind.OURS,
        at=min(began, until) if until is not None else began,
        until=until,
        what=f"The reply can be fetched {whither}" if pulled else f"The reply is {reply.state} {whither}",
        label="can be fetched" if pulled else reply.state,
        mark=Mark.DONE if pulled else REPLY_MARKS[reply.state],
        is_point=pulled or (not is_open and until is None),
        goes_on=is_open,
        facts=about,
        turn=turn.n,
        links=(("reply", reply.id),),
    )


def delivery_steps(sent: SessionDelivery, facts: SessionPart) -> Iterator[SessionStep]:
    for attempt in facts.attempts.get(("delivery", sent.n), ()):
        if attempt.ended_at != sent.settled_at:
            yield SessionStep(
                lane=sent.provider,
                kind=Kind.MEMORY,
                at=attempt.started_at or attempt.ended_at,
                until=attempt.ended_at,
                what=f"{sent.provider}, attempt {attempt.attempt}: {attempt.outcome}",
                label=str(attempt.status or attempt.outcome),
                mark=Mark.UNCERTAIN if attempt.outcome in {"uncertain", "unclear"} else Mark.FAILED,
                facts=known(
                    status=attempt.status,
                    request_id=attempt.request_id,
                    reason=attempt.reason,
                    extract=attempt.extract,
                    node=attempt.node,
                ),
                turn=sent.from_turn,
            )
    settled = sent.settled_at
    began = sent.sent_at or sent.at
    if settled is not None and (sent.sent_at is None or settled < began):
        began = settled  # it was settled without being sent
    is_open = sent.state in {"scheduled", "sending", "uncertain"}
    yield SessionStep(
        lane=sent.provider,
        kind=Kind.MEMORY,
        at=sent.at if sent.state == "scheduled" else began,
        until=None if is_open else settled,
        what=f"{sent.provider}: {sent.state}",
        label="receipt" if sent.state == "delivered" else sent.state,
        mark=DELIVERY_MARKS[sent.state],
        goes_on=is_open,
        is_point=not is_open and (settled is None or settled == began),
        facts=known(
            state=sent.state,
            delivery=sent.id,
            operation=sent.op,
            turns=f"{sent.from_turn} to {sent.through_turn}" if sent.through_turn != sent.from_turn else "",
            attempts=sent.attempt,
            receipt=sent.receipt,
            reason=sent.reason,
        ),
        turn=sent.from_turn,
        links=(("delivery", sent.id),) if sent.state == "parked" else (),
    )


def upkeep_steps(facts: SessionPart) -> Iterator[SessionStep]:
    for operation in facts.operations:
        yield SessionStep(
            lane=UPKEEP,
            kind=Kind.OURS,
            at=operation.started_at,
            until=operation.ended_at,
            what=f"{operation.kind.capitalize()} ({operation.id})",
            label=operation.kind,
            mark=Mark.RUNNING if operation.ended_at is None else Mark.DONE,
            goes_on=operation.ended_at is None,
            facts=known(operation=operation.id, node=operation.owner, outcome=operation.outcome),
        )
    for run in facts.runs:
        is_lost = run.ending == "lost"
        yield SessionStep(
            lane=UPKEEP,
            kind=Kind.OURS,
            at=max(run.seen_at, facts.first_at),
            until=run.ended_at,
            what=f"The process on {run.host} was lost" if is_lost else f"The process on {run.host} stopped",
            label="process lost" if is_lost else "process stopped",
            mark=Mark.LOST if is_lost else Mark.DONE,
            is_point=run.ended_at is None or run.ended_at <= max(run.seen_at, facts.first_at),
            facts=known(node=run.id, ending=run.ending),
        )
