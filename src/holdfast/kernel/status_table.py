"""Status tables: what the status of a write proves about its content (D47).

Each adapter has one table, and its error translation uses only that table; docs/reference/answers.md is generated from
the same rows. A status may come from an intermediary (a proxy, a gateway, a load balancer), which may still forward the
request. An answer is the server's own only if its body has a shape that no intermediary produces; each table defines
that shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Meaning(Enum):
    """The conclusion from an answer. The documentation shows the values."""

    # for memory providers
    REFUSED = "refused"  # not stored, and never will be
    UNREACHABLE = "unreachable"  # not stored, or storing it twice is harmless; retried
    SUSPECT = "unreachable, suspect"  # the same, and the content may be the cause
    UNCERTAIN = "uncertain"  # possibly stored: looked up, and resent only after the quiet period
    UNCERTAIN_SUSPECT = "uncertain, suspect"
    # for channels
    DECLINED = "declined"  # not posted, and never will be
    NOT_SENT = "not sent"  # not posted; retried
    DOUBTFUL = "doubtful"  # possibly posted


@dataclass(frozen=True, slots=True)
class Answer:
    """One row. `own` restricts it to answers that are provably the server's own, or not; None matches both."""

    statuses: tuple[range, ...]
    meaning: Meaning
    says: str  # a sentence for people, without the body or a key
    own: bool | None = None

    @property
    def shown(self) -> str:
        return ", ".join(f"{some[0]} to {some[-1]}" if len(some) > 1 else str(some[0]) for some in self.statuses)


def only(*statuses: int) -> tuple[range, ...]:
    return tuple(range(status, status + 1) for status in statuses)


def answer_to(table: Sequence[Answer], status: int, *, own: bool) -> Answer:
    """The first row that covers the status. Every table ends with rows that cover all statuses."""
    for row in table:
        if row.own in (None, own) and any(status in some for some in row.statuses):
            return row
    return table[-1]
