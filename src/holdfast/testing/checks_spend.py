"""I20: an agent whose daily limit is used up asks no model, and every used answer was paid for once.

A request may begin while others run, so a day may end above its limit by their cost. Therefore each request is judged
by the amount in the ledger when its worker read the ledger.
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
    """An answer has at most one row, and an answer in the journal has one. Each answer has a unique model name."""
    paid = Counter((row["agent"], row["model"]) for row in evidence.rows["spend"])
    yield from (f"the answer of {model} was paid for {times} times" for (_, model), times in paid.items() if times > 1)
    for row in evidence.rows["entry"]:
        body = body_of(row) if row["kind"] == "assistant" else None
        if isinstance(body, AssistantSaid) and body.model.startswith(PAID):
            agent = evidence.lineage.sessions[row["session"]]["agent"]
            if (agent, body.model) not in paid:
                yield f"entry {row['seq']} of {row['session']} is the answer of {body.model}, without a row of spending"
