"""Spend: the cost of models, and an agent's limit per day. Days are UTC days."""

from dataclasses import dataclass

from holdfast.kernel.ids import AgentName, Instant
from holdfast.turns.policy import DAY_MS

MICROS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """One billed answer of a model, refusals included."""

    id: str
    agent: AgentName
    task: str
    model: str
    tokens_in: int
    tokens_out: int
    cost_micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendTotal:
    """The spend of one agent on one model for one kind of task."""

    agent: AgentName
    model: str
    task: str
    answers: int
    tokens_in: int
    tokens_out: int
    cost_micros: int


def day_start(now: Instant) -> Instant:
    return Instant(now - now % DAY_MS)


def dollars(micros: int) -> str:
    """The amount in whole cents, or with as many digits as a smaller amount needs."""
    if micros % 10_000 == 0 or micros >= MICROS:
        return f"${micros / MICROS:,.2f}"
    return f"${micros / MICROS:.6f}".rstrip("0")


def used_up(limit_micros: int) -> str:
    """The text for the sender of a message."""
    return f"the agent's daily limit of {dollars(limit_micros)} is used up; it answers again after 00:00 UTC"
