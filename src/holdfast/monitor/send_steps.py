"""The steps of a message's timeline about its replies and about memory providers: attempts, answers and receipts."""

from collections.abc import Iterator, Sequence

from holdfast.kernel.vendor_error import VendorError
from holdfast.memory.delivery import DeliveryView
from holdfast.monitor.attempt import SendAttempt
from holdfast.monitor.timeline_step import Chapter, Mark, TimelineStep, joined
from holdfast.monitor.trace import TracedReply, TracedSend, TraceFacts
from holdfast.outbox.post import PULLED

# --- replies -----------------------------------------------------------------------------------------

REPLY_MARKS = {
    "pending": Mark.WAITING,
    "attempting": Mark.RUNNING,
    "delivered": Mark.DONE,
    "uncertain": Mark.UNCERTAIN,
    "failed": Mark.FAILED,
}
TRIED, SETTLED = 20, 21  # the order of steps of one millisecond, after those of the turn


def replied(facts: TraceFacts) -> Iterator[TimelineStep]:
    for reply in facts.replies:
        attempts = [attempt for ident, attempt in facts.reply_attempts if ident == reply.id]
        yield from _reply(reply, attempts)


def _reply(reply: TracedReply, attempts: Sequence[SendAttempt]) -> Iterator[TimelineStep]:
    kind = "agent" if reply.channel == "agent" else "reply"
    thing = "question" if reply.id.startswith("ask_") else "message" if kind == "agent" else "reply"
    whither = f"to {reply.address}" if kind == "agent" else f"over {reply.channel}"
    if reply.channel in PULLED:
        at = reply.settled_at or reply.at
        what = f"the {thing} can be fetched"
        yield TimelineStep(at=at, kind=kind, what=what, proof=reply.id, name=reply.channel, rank=SETTLED)
        return
    for attempt in attempts:
        if attempt.ended_at != reply.settled_at:  # the settling one is in the reply itself
            what = f"attempt {attempt.attempt} {whither}"
            yield _attempt(attempt, kind, what, Chapter.SAID, reply.channel)
    is_open = reply.state in {"pending", "attempting"}
    sent_at, settled_at = reply.sent_at or reply.at, reply.settled_at or reply.at
    words = {"pending": "waits to be sent", "attempting": "is being sent", "failed": "was not taken"}
    said = words.get(reply.state, f"is {reply.state}")
    if reply.decided_by is not None:
        told = f"arrived, {reply.decided_by} said," if reply.state == "delivered" else f"is {reply.state}"
        said = told if reply.state == "delivered" else f"{told}, given up by {reply.decided_by},"
    proved = reply.doubts == 0 and sent_at <= settled_at  # a doubtful reply keeps the time of its first attempt
    yield TimelineStep(
        at=sent_at if is_open or proved else settled_at,
        until=None if is_open else settled_at,
        kind=kind,
        what=f"the {thing} {said} {whither}",
        proof=joined(reply.id, f"receipt {reply.receipt}" if reply.receipt else None, reply.reason),
        mark=REPLY_MARKS[reply.state],
        name=reply.channel,
        rank=SETTLED,
    )


def _attempt(attempt: SendAttempt, kind: str, what: str, chapter: Chapter, name: str) -> TimelineStep:
    answer = VendorError(
        status=attempt.status or 0,
        request_id=attempt.request_id or "",
        code=attempt.code or "",
        extract=attempt.extract or "",
    )
    doubtful = {"uncertain": Mark.UNCERTAIN, "unclear": Mark.UNCERTAIN, "interrupted": Mark.LOST}
    return TimelineStep(
        at=attempt.started_at if attempt.started_at is not None else attempt.ended_at,
        until=attempt.ended_at,
        kind=kind,
        what=f"{what}: {attempt.outcome}",
        proof=joined(attempt.reason, answer.sentence),
        mark=doubtful.get(attempt.outcome, Mark.FAILED),
        chapter=chapter,
        name=name,
        rank=TRIED,
    )


# --- memory ------------------------------------------------------------------------------------------

DELIVERY_MARKS = {
    "scheduled": Mark.WAITING,
    "sending": Mark.RUNNING,
    "delivered": Mark.DONE,
    "uncertain": Mark.UNCERTAIN,
    "parked": Mark.FAILED,
    "dropped": Mark.DONE,
    "retracted": Mark.DONE,
}


def remembered(facts: TraceFacts) -> Iterator[TimelineStep]:
    for sent in (*facts.deliveries, *facts.note_deliveries):
        view = sent.view
        attempts = [attempt for ident, attempt in facts.delivery_attempts if ident == view.id] if view.n else []
        for attempt in attempts:
            if attempt.ended_at != sent.settled_at:  # the settling one is in the delivery itself
                what = f"{view.provider}, attempt {attempt.attempt}"
                yield _attempt(attempt, "delivery", what, Chapter.REMEMBERED, view.provider)
        yield _delivery(sent)


def _delivery(sent: TracedSend) -> TimelineStep:
    view = sent.view
    mark = DELIVERY_MARKS[view.state]
    what = f"{view.provider}: {'a note ' if view.op == 'remember' else ''}{_delivery_words(view)}"
    proof = joined(view.id, f"receipt {view.receipt}" if view.receipt else None, view.reason)
    began, until = sent.sent_at or view.at, sent.settled_at
    if until is not None and (until < began or sent.sent_at is None):
        began = until  # it was settled without being sent
    return TimelineStep(
        at=began,
        until=until,
        kind="delivery",
        what=what,
        proof=proof,
        mark=mark,
        chapter=Chapter.REMEMBERED,
        name=view.provider,
        rank=SETTLED,
    )


def _delivery_words(view: DeliveryView) -> str:
    retract = view.op.startswith("retract")
    if view.decided_by is not None:
        return f"given up by {view.decided_by}" if view.state == "parked" else f"arrived, {view.decided_by} said"
    words = {
        "scheduled": "waits to be sent",
        "sending": "is being sent",
        "delivered": "taken back" if retract else "delivered",
        "uncertain": "uncertain, it is asked",
        "parked": "parked until it is replayed",
        "dropped": f"not sent ({view.reason})" if view.reason else "not sent",
        "retracted": "delivered, and taken back later",
    }
    return words[view.state]
