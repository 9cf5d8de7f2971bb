"""Finish: which sessions end next, and which ended, once, with the proof."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.kernel.ids import Instant
from holdfast.kernel.time_zones import UTC, zone_offset
from holdfast.monitor.finish_sql import RestingSession, list_resting_sessions
from holdfast.sessions.extraction import decode_result
from holdfast.sessions.finalisation import Finalisation, FinishStep, expires_at, parse_origin
from holdfast.sessions.finalisation_sql import list_finalisations

CHOICE = {"type": "string", "maxLength": 64}
QUERY = {
    "agent": Param("only this agent's", CHOICE, default=""),
    "state": Param("only those in this step", CHOICE, default=""),
}
STEPS = [step.value for step in FinishStep]
NEXT_MAX, SHOWN_MAX = 15, 100
WORDS = {
    "begun": "its entries are frozen; the model is asked what to keep",
    "asked": "the model's answer is stored; its notes come next",
    "applied": "its notes are in memory; it closes next",
    "failed": "given up; the history is intact",
    "cancelled": "a message came first; its entries went to the next epoch",
}


@dataclass(frozen=True, slots=True)
class NextEnd:
    session: RestingSession
    at: Instant
    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    row: Finalisation
    entries: int
    applied: int | None  # notes that its answer changed; None without an answer
    unfit: int  # proposals that wait for a person


@page("/console/finish", query=QUERY)
async def get_finish(asked: Asked) -> PageView:
    """What finalises next, and what finalised."""
    agent, state = asked.query["agent"], asked.query["state"] if asked.query["state"] in STEPS else ""
    following = await _following(asked, agent)
    found = await asked.read(list_finalisations(agent=agent or None, state=state or None, limit=SHOWN_MAX))
    ended = [_ended(row) for row in found]
    return PageView(
        "finish.html",
        "Finish",
        {
            "asked": {"agent": agent, "state": state},
            "following": following[:NEXT_MAX],
            "more": len(following) - NEXT_MAX,
            "never": [name for name in asked.runtime.agents() if not _ends(asked, name)],
            "ended": ended,
            "running": sum(not one.row.ended for one in ended),
            "failed": sum(one.row.step is FinishStep.FAILED for one in ended),
            "agents": asked.runtime.agents(),
            "steps": STEPS,
            "words": WORDS,
            "is_full": len(found) == SHOWN_MAX,
        },
    )


def _ends(asked: Asked, agent: str) -> bool:
    policy = asked.runtime.policy(agent)
    return policy is not None and (policy.expiry.idle_ms is not None or policy.expiry.daily_ms is not None)


async def _following(asked: Asked, agent: str) -> list[NextEnd]:
    """One statement for each agent whose sessions expire."""
    found = list[NextEnd]()
    for name in asked.runtime.agents():
        policy = asked.runtime.policy(name)
        if policy is None or agent not in {"", name} or not _ends(asked, name):
            continue
        offset = zone_offset(policy.expiry.time_zone if policy.expiry.daily_at else UTC)
        for one in await asked.read(list_resting_sessions(name)):
            end = expires_at(policy.expiry, one.active_at, offset)
            found += [NextEnd(one, *end)] if end is not None else []
    return sorted(found, key=lambda one: (one.at, one.session.id))


def _ended(row: Finalisation) -> Ended:
    result = decode_result(row.result) if row.result and row.result != b"{}" else None
    applied = None if result is None else sum(bool(seq) for seq in result.applied)
    return Ended(row, max(0, row.through_seq - row.from_seq + 1), applied, len(result.unfit) if result else 0)


@page("/console/finish/retry/{origin:path}")
async def get_retry(asked: Asked) -> PageView:
    """What retrying an extraction would do."""
    session, epoch = parse_origin(asked.call.id("origin"))
    rows: Sequence[Finalisation] = await asked.read(list_finalisations(session=session, limit=1_000))
    one = next((row for row in rows if row.epoch == epoch), None)
    return PageView("retry.html", "Retry an extraction", {"one": one, "origin": asked.call.id("origin")})
