"""I20: an agent whose daily limit is used up asks no model, and every answer that is used was paid for once.

A question may begin while others run, so a day ends above its limit by what those cost. Therefore each question is
judged by what was on record when its own look at the ledger was taken.
"""

from collections import Counter

from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.models import PAID
from holdfast.testing.rows import body_of
from holdfast.turns.journal import AssistantSaid


def spending_stops_at_the_limit(evidence: Evidence) -> Found:
    spent = evidence.rows.by("spend", "agent")
    for asked in evidence.asked:
        agent = evidence.lineage.sessions.get(asked.session, {}).get("agent")
        limit = evidence.policies[agent].daily_spend_micros if agent is not None else None
        if limit is None:
            continue
        if asked.looked_at is None:
            yield f"{asked.task.value} of {asked.session} was asked without a look at what was spent"
            continue
        before = sum(row["cost_micros"] for row in spent.get(agent, []) if row["at"] < asked.looked_at)
        if before >= limit:
            yield f"{asked.task.value} of {asked.session} was asked after {before} of {limit} were spent"


def answers_are_paid_once(evidence: Evidence) -> Found:
    """Each answer is one row at most, and one that is in the journal has its row. Each has a model of its own name."""
    paid = Counter((row["agent"], row["model"]) for row in evidence.rows["spend"])
    yield from (f"the answer of {model} was paid for {times} times" for (_, model), times in paid.items() if times > 1)
    for row in evidence.rows["entry"]:
        body = body_of(row) if row["kind"] == "assistant" else None
        if isinstance(body, AssistantSaid) and body.model.startswith(PAID):
            agent = evidence.lineage.sessions[row["session"]]["agent"]
            if (agent, body.model) not in paid:
                yield f"entry {row['seq']} of {row['session']} is the answer of {body.model}, which nobody paid for"
