"""The steps of a part of a session in the order in which they began: messages, and what their turns did."""

import json
from collections.abc import Iterator, Sequence

from holdfast.kernel.ids import Instant
from holdfast.monitor.session_facts import SessionMessage, SessionPart
from holdfast.monitor.session_send_steps import delivery_steps, reply_steps, upkeep_steps
from holdfast.monitor.session_step import (
    INBOUND,
    JOURNAL,
    MAILBOX,
    MODEL,
    PERSON,
    TITLE_CHARS_MAX,
    TOOLS,
    TURN,
    UPKEEP,
    Kind,
    SessionStep,
    cut,
    known,
    within_limits,
)
from holdfast.monitor.timeline_step import Mark
from holdfast.monitor.trace import TracedApproval, TracedTurn
from holdfast.turns.activity import Activity, ActivityKind
from holdfast.turns.journal import AssistantSaid, Entry, Recalled, ToolCall, ToolReturned


def session_steps(facts: SessionPart) -> tuple[SessionStep, ...]:
    entries = _by_turn(facts.entries)
    turns = {turn.n: turn for turn in facts.turns}
    found = [step for message in facts.messages for step in _message(message, turns.get(message.turn))]
    for turn in facts.turns:
        found += _turn(turn, facts)
        found += _activities(facts.activities.get(turn.n, ()), entries.get(turn.n, ()), turn)
        found += [step for asked in facts.approvals.get(turn.n, ()) for step in _approval(asked, turn)]
        found += [step for reply in facts.replies.get(turn.n, ()) for step in reply_steps(reply, turn, facts)]
    found += [step for delivery in facts.deliveries for step in delivery_steps(delivery, facts)]
    found += upkeep_steps(facts)
    return tuple(within_limits(sorted(found, key=lambda step: step.at)))  # the sort keeps the order of equals


def _by_turn(entries: Sequence[Entry]) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.turn, []).append(entry)
    return found


def _json(text: str) -> str:
    """JSON with an indent; another text as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


# --- the message and its turn -------------------------------------------------------------------------


def _message(message: SessionMessage, turn: TracedTurn | None) -> Iterator[SessionStep]:
    words = " ".join(message.text.split())
    yield SessionStep(
        lane=INBOUND,
        kind=Kind.OURS,
        at=message.at,
        what=f"Message of {message.principal}",
        label=cut(f"{message.principal}: {words}" if words else message.principal, TITLE_CHARS_MAX),
        is_point=True,
        facts=known(state=message.state, sender=message.principal, own_id=message.event_id, id=message.message),
        payload_name="words",
        payload=message.text or "its words are erased",
        turn=message.turn,
        links=(("trace", message.message),),
    )
    if turn is not None and turn.opened_at > message.at:
        yield SessionStep(
            lane=MAILBOX,
            kind=Kind.OURS,
            at=message.at,
            until=turn.opened_at,
            what="Waited for its turn",
            label="waited",
            mark=Mark.WAITING,
            turn=message.turn,
        )


ENDINGS = {"committed": "Turn {} committed", "failed": "Turn {} failed", "interrupted": "Turn {} interrupted"}


def _turn(turn: TracedTurn, facts: SessionPart) -> Iterator[SessionStep]:
    is_open = turn.closed_at is None
    is_well = is_open or turn.phase == "committed"
    about = known(
        phase=turn.phase,
        attempts=turn.attempt,
        principal=turn.principal,
        tokens_in=turn.tokens_in,
        tokens_out=turn.tokens_out,
        node=turn.node,
        reason=turn.reason,
    )
    yield SessionStep(
        lane=TURN,
        kind=Kind.OURS,
        at=turn.opened_at,
        until=turn.closed_at,
        what=f"Turn {turn.n}",
        label=f"turn {turn.n}" + (f", {turn.phase}" if is_open else ""),
        mark=Mark.RUNNING if is_open else Mark.DONE if is_well else Mark.FAILED,
        goes_on=is_open,
        facts=about,
        turn=turn.n,
    )
    if turn.closed_at is not None:
        last = [entry.seq for entry in facts.entries if entry.turn == turn.n]
        yield SessionStep(
            lane=JOURNAL,
            kind=Kind.OURS,
            at=turn.closed_at,
            what=ENDINGS.get(turn.phase, f"Turn {{}} {turn.phase}").format(turn.n),
            label=f"turn {turn.n}",
            mark=Mark.DONE if is_well else Mark.FAILED,
            is_point=True,
            is_commit=True,
            facts=known(entries=f"{min(last)} to {max(last)}" if last else "", reason=turn.reason, fence=facts.fence),
            turn=turn.n,
        )


# --- what the turn did --------------------------------------------------------------------------------


def _activities(done: Sequence[Activity], entries: Sequence[Entry], turn: TracedTurn) -> Iterator[SessionStep]:
    """An answer of the model is stored together with its activity, so both have the same order."""
    answers = iter([entry.body for entry in entries if isinstance(entry.body, AssistantSaid)])
    calls = {call.id: call for entry in entries if isinstance(entry.body, AssistantSaid) for call in entry.body.calls}
    results = {entry.body.call: entry.body for entry in entries if isinstance(entry.body, ToolReturned)}
    recalled = iter([entry.body for entry in entries if isinstance(entry.body, Recalled)])
    number = 0
    for one in done:
        if one.kind is ActivityKind.MODEL:
            number += 1
            answer = next(answers, None) if one.outcome in {"answered", "called tools"} else None
            yield _model(one, number, answer, turn)
        elif one.kind is ActivityKind.TOOL:
            yield _tool(one, calls.get(one.call or ""), results.get(one.call or ""), turn)
        elif one.kind is ActivityKind.RECALL:
            yield from _recall(one, next(recalled, None) if one.outcome == "shown" else None, turn)
        else:
            yield _other(one, turn)


FAILED = frozenset({"failed", "error", "interrupted"})


def _mark(outcome: str) -> Mark:
    return Mark.FAILED if outcome in FAILED else Mark.UNCERTAIN if outcome == "unknown" else Mark.DONE


def _model(one: Activity, number: int, answer: AssistantSaid | None, turn: TracedTurn) -> SessionStep:
    payload = ""
    if answer is not None:
        called = [{"name": call.name, "arguments": _loaded(call.arguments)} for call in answer.calls]
        told = json.dumps({"calls": called}, indent=2, ensure_ascii=False) if called else ""
        payload = "\n\n".join(part for part in (answer.text, told) if part)
    more = {name: one.detail.get(name) for name in ("status", "request_id", "code", "reason", "extract")}
    parts = ", ".join(f"{name} {tokens}" for name, tokens in one.detail.get("parts", {}).items())
    return SessionStep(
        lane=MODEL,
        kind=Kind.MODEL,
        at=one.started_at,
        until=one.ended_at,
        what=f"Model call {number} of turn {turn.n}",
        label=f"call {number}",
        mark=_mark(one.outcome),
        facts=known(
            outcome=one.outcome,
            model=one.name,
            tokens_in=one.tokens_in,
            tokens_out=one.tokens_out,
            estimated_parts=parts,
            **more,
        ),
        payload_name="answer" if payload else "",
        payload=payload,
        turn=turn.n,
    )


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tool(one: Activity, call: ToolCall | None, result: ToolReturned | None, turn: TracedTurn) -> SessionStep:
    parts = [f"arguments\n{_json(call.arguments)}" if call else "", f"result\n{_json(result.text)}" if result else ""]
    return SessionStep(
        lane=TOOLS,
        kind=Kind.TOOL,
        at=one.started_at,
        until=one.ended_at,
        what=one.name,
        mark=_mark(one.outcome),
        facts=known(outcome=one.outcome, call=one.call, result_bytes=len(result.text.encode()) if result else None),
        payload_name="call",
        payload="\n\n".join(filter(None, parts)),
        turn=turn.n,
    )


def _recall(one: Activity, shown: Recalled | None, turn: TracedTurn) -> Iterator[SessionStep]:
    """One step in the lane of each provider that was asked, of its own duration; all of the answer in the first."""
    took = one.detail.get("took_ms") or {one.name: one.duration_ms}
    for position, (provider, ms) in enumerate(took.items()):
        yield SessionStep(
            lane=provider,
            kind=Kind.MEMORY,
            at=one.started_at,
            until=Instant(one.started_at + int(ms)),
            what=f"Recall from {provider}",
            label="recall",
            facts=known(
                outcome=one.outcome,
                found=one.detail.get("found"),
                shown=one.detail.get("shown"),
                left_out="; ".join(one.detail.get("skipped", ())),
                sources=", ".join(shown.sources) if shown else "",
            ),
            payload_name="recalled" if shown and not position else "",
            payload=shown.text if shown and not position else "",
            turn=turn.n,
        )


def _other(one: Activity, turn: TracedTurn) -> SessionStep:
    if one.kind is ActivityKind.COMPRESSION:
        what, mark = "Waited for a summary", Mark.WAITING
    else:
        went_on = one.outcome == "awaiting"
        what, mark = ("The turn went on", Mark.DONE) if went_on else ("Another claim took the turn over", Mark.LOST)
    return SessionStep(
        lane=UPKEEP,
        kind=Kind.OURS,
        at=one.started_at,
        until=one.ended_at if one.ended_at > one.started_at else None,
        what=what,
        label=what.lower(),
        mark=mark,
        is_point=one.ended_at <= one.started_at,
        facts=known(outcome=one.outcome, before=one.name),
        turn=turn.n,
    )


def _approval(asked: TracedApproval, turn: TracedTurn) -> Iterator[SessionStep]:
    is_open = asked.decided_at is None
    yield SessionStep(
        lane=PERSON,
        kind=Kind.PERSON,
        at=asked.asked_at,
        until=asked.decided_at,
        what=f"{asked.tool} waits for a person" if is_open else f"{asked.tool} waited for a person",
        label="waits for a person" if is_open else f"{asked.decision}",
        mark=Mark.WAITING,
        goes_on=is_open,
        facts=known(approval=asked.id, decision=asked.decision, decided_by=asked.decided_by),
        turn=turn.n,
        links=(("approval", asked.id),) if is_open else (),
    )
