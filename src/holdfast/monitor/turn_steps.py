"""The steps of a message's timeline up to the end of its turn, and what happened to the turn afterwards."""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import Instant
from holdfast.kernel.vendor_error import VendorError
from holdfast.monitor.timeline_step import Mark, TimelineStep, joined
from holdfast.monitor.trace import NodeRun, TracedApproval, TracedTurn, TraceFacts, TurnAhead
from holdfast.turns.activity import Activity, ActivityKind

VENDOR = ("status", "request_id", "code", "extract")  # details of a failed request to a model
SHOWN_WAITS = 5  # turns that a message waited behind, the newest ones
# The order of steps of one millisecond.
ACCEPTED, NATURE, QUEUED, BEGAN, DECIDED, LOST, RESUMED, ACTED, ASKED, ENDED, NOW, AFTERWARDS = range(12)


# --- the message and its wait ------------------------------------------------------------------------


def accepted(facts: TraceFacts) -> Iterator[TimelineStep]:
    message = facts.message
    if message.state is MessageState.REFUSED:
        why = message.reason or "no reason is known"
        yield TimelineStep(at=message.accepted_at, kind="message", what="refused", proof=why, mark=Mark.FAILED)
        return
    at, from_whom = message.accepted_at, f"from {message.principal}, own id {message.event_id}"
    yield TimelineStep(at=at, kind="message", what="accepted and durable", proof=from_whom, rank=ACCEPTED)
    if message.state is MessageState.OBSERVED:
        why = "it was not addressed to the agent: it is context for later turns"
        yield TimelineStep(at=at, kind="message", what="observed", proof=why, rank=NATURE)
    elif message.state is MessageState.HELD:
        why = f"held without an answer: {message.reason or 'the loop guard'}"
        yield TimelineStep(
            at=message.accepted_at, kind="message", what="held", proof=why, mark=Mark.WAITING, rank=NATURE
        )
    elif message.state is MessageState.COMMAND and facts.turn is None:
        why = "it takes effect at once" if facts.kind == "signal" else "it takes its place in the queue"
        yield TimelineStep(at=at, kind="command", what="is a command", proof=why, rank=NATURE)


def waited(facts: TraceFacts) -> Iterator[TimelineStep]:
    message, turn = facts.message, facts.turn
    is_waiting = message.state is MessageState.WAITING
    if turn is None and not is_waiting:
        return
    began = turn.opened_at if turn is not None else None
    behind = [ahead for ahead in facts.ahead if began is None or ahead.opened_at < began][-SHOWN_WAITS:]
    if began is not None and began <= message.accepted_at and not behind:
        return
    yield TimelineStep(
        at=message.accepted_at,
        until=began,
        kind="queue",
        what="waited for its turn" if began is not None else "waits for its turn",
        proof=_wait_reason(facts, behind),
        mark=Mark.DONE if began is not None else Mark.WAITING,
        rank=QUEUED,
    )


def _wait_reason(facts: TraceFacts, behind: Sequence[TurnAhead]) -> str:
    began = facts.turn.opened_at if facts.turn is not None else facts.at
    told = [f"behind turn {one.n} of {one.session}" for one in behind]
    compressions = [one for one in facts.compressions if one.started_at < began]
    told += [f"while {one.session} was being compressed ({one.id})" for one in compressions]
    if facts.message.state is MessageState.WAITING:
        if facts.message.queued_behind:
            ahead = facts.message.queued_behind
            told.append("one message is ahead of it" if ahead == 1 else f"{ahead} messages are ahead of it")
        if not facts.nodes_alive:
            told.append("no process serves this store: start `holdfast up`")
    return joined(*told)


# --- the turn ----------------------------------------------------------------------------------------


def turned(facts: TraceFacts) -> Iterator[TimelineStep]:
    turn, message = facts.turn, facts.message
    if turn is None:
        return
    runs = {run.id: run for run in facts.runs}
    resumed = [done for done in facts.activities if done.kind is ActivityKind.RESUMPTION]
    first = resumed[0].name if resumed else turn.node or ""
    yield TimelineStep(
        at=turn.opened_at,
        kind="turn",
        what=f"turn {turn.n} of {message.session} began",
        proof=_on(first, runs),
        name=first,
        rank=BEGAN,
    )
    known = turn.opened_at
    for done in facts.activities:
        if done.kind is ActivityKind.RESUMPTION:
            yield from _resumed(done, runs, known)
        else:
            yield from _activity(done)
        known = max(known, done.ended_at)
    for asked in facts.approvals:
        yield from _approval(asked)
    if turn.closed_at is None:
        yield from _open_turn(turn, facts, runs, known)
        return
    tokens = f"{turn.tokens_in or 0} tokens in, {turn.tokens_out or 0} out"
    ended = {"committed": "answered and committed", "failed": "failed", "interrupted": "interrupted"}
    mark = Mark.DONE if turn.phase == "committed" else Mark.FAILED
    proof = joined(turn.reason, tokens)
    what = f"turn {turn.n} {ended.get(turn.phase, turn.phase)}"
    yield TimelineStep(at=turn.closed_at, kind="turn", what=what, proof=proof, mark=mark, rank=ENDED)


def _on(node: str, runs: Mapping[str, NodeRun]) -> str:
    run = runs.get(node)
    return f"on {run.host} ({node})" if run is not None else f"on {node}" if node else ""


def _activity(done: Activity) -> Iterator[TimelineStep]:
    what, proof = activity_words(done)
    mark = Mark.FAILED if done.outcome in {"failed", "error", "interrupted"} else Mark.DONE
    mark = Mark.UNCERTAIN if done.outcome == "unknown" else mark
    yield TimelineStep(
        at=done.started_at,
        until=done.ended_at,
        kind=done.kind.value,
        what=what,
        proof=proof,
        mark=mark,
        name=done.name,
        rank=ACTED,
    )


def activity_words(done: Activity) -> tuple[str, str]:
    """What an activity did, and its numbers."""
    match done.kind:
        case ActivityKind.MODEL:
            told = [f"{done.tokens_in} tokens in, {done.tokens_out} out"] if done.tokens_in is not None else []
            answer = VendorError(**{name: done.detail[name] for name in VENDOR if name in done.detail})
            return f"{done.name} {done.outcome}", joined(*told, done.detail.get("reason"), answer.sentence)
        case ActivityKind.TOOL:
            outcome = {"ok": "returned", "error": "returned an error", "not_run": "was not run"}
            return f"tool {done.name} {outcome.get(done.outcome, done.outcome)}", f"call {done.call}"
        case ActivityKind.RECALL:
            told = [f"{done.detail.get('shown', 0)} of {done.detail.get('found', 0)} memories were shown to the model"]
            return f"memory was asked ({done.name})", "; ".join([*told, *done.detail.get("skipped", ())])
        case _:
            return "the turn waited for a summary", done.outcome


def _resumed(done: Activity, runs: Mapping[str, NodeRun], before: Instant) -> Iterator[TimelineStep]:
    """A take-over. `before` is the last thing that is known of the earlier process."""
    if done.outcome == "awaiting":  # the turn held no claim while it waited for a human
        yield TimelineStep(at=done.started_at, kind="turn", what="the turn went on", rank=RESUMED)
        return
    run = runs.get(done.name)
    if run is None or run.ending != "lost":
        how = "its process was stopped" if run is not None and run.ending == "stopped" else "another claim took it"
        proof = f"{how}; it goes on from its last journaled step"
        yield TimelineStep(at=done.started_at, kind="turn", what="the turn was taken over", proof=proof, rank=RESUMED)
        return
    doing = {"thinking": "the model was asked", "acting": "tools ran"}.get(done.outcome, done.outcome)
    yield TimelineStep(
        at=max(run.seen_at, before),
        until=done.started_at,
        kind="process",
        what=f"its process was lost while {doing}",
        proof=f"{_on(done.name, runs)}, last seen then",
        mark=Mark.LOST,
        name=done.name,
        rank=LOST,
    )
    proof = "from its last journaled step"
    yield TimelineStep(at=done.started_at, kind="turn", what="the turn resumed", proof=proof, rank=RESUMED)


def _approval(asked: TracedApproval) -> Iterator[TimelineStep]:
    is_open = asked.decided_at is None
    yield TimelineStep(
        at=asked.asked_at,
        until=asked.decided_at,
        kind="approval",
        what=f"{asked.tool} waits for a person" if is_open else f"{asked.tool} waited for a person",
        proof=f"/approve {asked.id} or /deny {asked.id}" if is_open else asked.id,
        mark=Mark.WAITING if is_open else Mark.DONE,
        name=asked.tool,
        rank=ASKED,
    )
    if asked.decided_at is not None:
        who = f" by {asked.decided_by}" if asked.decided_by else ""
        what = f"{asked.tool} was {asked.decision}{who}"
        yield TimelineStep(at=asked.decided_at, kind="approval", what=what, proof=asked.id, rank=DECIDED)


def _open_turn(
    turn: TracedTurn, facts: TraceFacts, runs: Mapping[str, NodeRun], known: Instant
) -> Iterator[TimelineStep]:
    """Where an open turn stands: running, or left behind by a dead process. One that waits for a person says so."""
    if turn.phase == "awaiting":
        return
    run = runs.get(turn.node or "")
    if facts.is_claimed and (run is None or run.ended_at is None):
        what = {"thinking": "now the model is asked", "acting": "now tools run"}[turn.phase]
        tried = f"attempt {turn.attempt}"
        yield TimelineStep(at=known, kind="turn", what=what, proof=tried, mark=Mark.RUNNING, rank=NOW)
        return
    doing = {"thinking": "the model was asked", "acting": "tools ran"}[turn.phase]
    goes_on = "it resumes within seconds" if facts.nodes_alive else "it resumes when `holdfast up` runs again"
    yield TimelineStep(
        at=max(run.seen_at, known) if run is not None else known,
        kind="process",
        what=f"its process was lost while {doing}",
        proof=f"{_on(turn.node or '', runs)}, last seen then; {goes_on}",
        mark=Mark.LOST,
        name=turn.node or "",
        rank=LOST,
    )


# --- afterwards --------------------------------------------------------------------------------------


def afterwards(facts: TraceFacts) -> Iterator[TimelineStep]:
    if facts.repeated_at is not None:
        what = "sent again under the same id" if facts.repeats == 1 else f"sent again {facts.repeats} times"
        why = "it was known: no second turn"
        yield TimelineStep(at=facts.repeated_at, kind="message", what=what, proof=why, rank=AFTERWARDS)
    if facts.undone is not None:
        by = f"by {facts.undone.by}" if facts.undone.by else ""
        yield TimelineStep(at=facts.undone.at, kind="command", what="the turn was undone", proof=by, rank=AFTERWARDS)
    if facts.is_forgotten and facts.message.state is not MessageState.REFUSED:
        why = "only the envelope is left"
        yield TimelineStep(at=facts.at, kind="command", what="its words are erased", proof=why, rank=AFTERWARDS)
