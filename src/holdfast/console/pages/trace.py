"""The trace of a message: one sentence, where the time went, every step with what it was given and returned."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from starlette.responses import RedirectResponse, Response

from holdfast.console.page import Asked, PageView, page
from holdfast.kernel.ids import MessageId
from holdfast.monitor.time_spent import time_spent
from holdfast.monitor.timeline import timeline
from holdfast.monitor.timeline_step import Chapter, Mark, TimelineStep
from holdfast.monitor.trace import TraceFacts
from holdfast.monitor.trace_sql import find_messages, near_messages, read_trace
from holdfast.monitor.turn_words import Payload, payloads
from holdfast.monitor.turn_words_sql import read_words
from holdfast.turns.activity import ActivityKind

GAP_MS = 100  # shorter pauses between steps are not told
LONG_GAP_MS = 10_000
RUN_MAX = 3  # equal failures that are all shown


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """A step as the page draws it."""

    step: TimelineStep
    since_ms: int  # since the message was accepted
    gap_ms: int  # since the step before ended; 0 if that is not worth telling
    is_long: bool
    begins: str  # the chapter that begins here
    payloads: Sequence[Payload] = ()
    act: tuple[str, str, bool] | None = None  # words, address, whether it opens a dialog
    folded: Sequence[TimelineStep] = ()  # equal failures after this one, before its last


@page("/console/trace")
async def get_trace_search(_asked: Asked) -> PageView:
    """Where a person enters an id to be traced."""
    return PageView("trace_search.html", "Trace")


@page("/console/trace/{message:path}")
async def get_trace(asked: Asked) -> PageView | Response:
    """What happened to a message, by any id that leads to it."""
    wanted = asked.call.id("message")
    found = await asked.read(find_messages(wanted))
    if not found:
        near = await asked.read(near_messages(wanted)) if wanted.startswith("msg_") else ()
        return PageView("trace_unknown.html", "Unknown id", {"wanted": wanted, "near": near}, status=404)
    if len(found) > 1:
        return PageView("trace_choice.html", "Several messages", {"wanted": wanted, "found": found})
    if found[0] != wanted:
        return RedirectResponse(f"/console/trace/{found[0]}", 303)
    return await _shown(asked, MessageId(wanted))


async def _shown(asked: Asked, message: MessageId) -> PageView:
    facts = await asked.read(read_trace(message))
    words = await asked.read(read_words(message))
    told = timeline(facts)
    ended_at = facts.turn.closed_at if facts.turn is not None else None
    calls = [done for done in facts.activities if done.kind is ActivityKind.TOOL]
    return PageView(
        "trace.html",
        "Trace",
        {
            "facts": facts,
            "told": told,
            "words": words.message,
            "story": fold(list(_story(told.steps, facts, payloads(told.steps, words)))),
            "spent": time_spent(told, accepted_at=facts.message.accepted_at, ended_at=ended_at, now=facts.at),
            "tool_calls": len(calls),
            "tools_unknown": sum(done.outcome == "unknown" for done in calls),
        },
    )


def _story(
    steps: Sequence[TimelineStep], facts: TraceFacts, shown: Mapping[int, Sequence[Payload]]
) -> Iterator[StoryStep]:
    began = steps[0].at if steps else 0
    known, chapter = began, Chapter.SAID
    for index, step in enumerate(steps):
        begins = "Remembered" if step.chapter is not chapter else ""
        gap = 0 if begins or step.kind == "delivery" else step.at - known
        yield StoryStep(
            step=step,
            since_ms=step.at - began,
            gap_ms=gap if gap >= GAP_MS else 0,
            is_long=gap >= LONG_GAP_MS,
            begins=begins,
            payloads=shown.get(index, ()),
            act=_act(step, facts),
        )
        known, chapter = max(known, step.until or step.at), step.chapter


def fold(story: Sequence[StoryStep]) -> list[StoryStep]:
    """The story with the middle of a long run of equal failures folded into its first one."""
    shown: list[StoryStep] = []
    for _, run in groupby(story, key=lambda one: (one.step.kind, one.step.name, one.step.proof, is_attempt(one.step))):
        equal = list(run)
        if len(equal) > RUN_MAX and is_attempt(equal[0].step):
            first, *middle, last = equal
            shown += [replace(first, folded=[one.step for one in middle]), last]
        else:
            shown += equal
    return shown


def is_attempt(step: TimelineStep) -> bool:
    return step.mark is Mark.FAILED and ", attempt " in step.what


def _act(step: TimelineStep, facts: TraceFacts) -> tuple[str, str, bool] | None:
    """What a person can do about a step."""
    if step.kind == "approval" and step.mark is Mark.WAITING:
        wanted = next((one.id for one in facts.approvals if one.decided_at is None and one.id in step.proof), "")
        return ("Review", f"/console/approvals#{wanted}", False) if wanted else None
    if step.kind == "delivery":
        parked = [sent.view.id for sent in facts.deliveries if sent.view.state == "parked"]
        found = next((one for one in parked if step.proof.startswith(one)), "")
        return ("Replay…", f"/console/deliveries/replay/{found}", True) if found else None
    if step.kind == "reply":
        undecided = [reply.id for reply in facts.replies if reply.state in {"uncertain", "failed"}]
        found = next((one for one in undecided if step.proof.startswith(one)), "")
        return ("Resend…", f"/console/replies/resend/{found}", True) if found else None
    return None
