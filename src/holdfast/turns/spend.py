"""What models cost, and how much of it an agent may spend on a day. A day is a day of UTC."""

from dataclasses import dataclass

from holdfast.kernel.ids import AgentName, Instant
from holdfast.turns.policy import DAY_MS

MICROS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """One answer of a model that somebody is paid for, refusals included."""

    id: str
    agent: AgentName
    task: str
    model: str
    tokens_in: int
    tokens_out: int
    cost_micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendTotal:
    """What one agent spent on one model for one kind of task."""

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
    """Whole cents, or as many digits as a smaller sum needs."""
    if micros % 10_000 == 0 or micros >= MICROS:
        return f"${micros / MICROS:,.2f}"
    return f"${micros / MICROS:.6f}".rstrip("0")


def used_up(limit_micros: int) -> str:
    """What the sender of a message is told."""
    return f"the agent's daily limit of {dollars(limit_micros)} is used up; it answers again after 00:00 UTC"
