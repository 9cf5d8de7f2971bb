"""Answers: what the status of a write proves about the words that it carried (D47).

Each adapter has one table of rows, and its translation of failures reads that table and nothing else; the page
docs/reference/answers.md is made from the same rows. A status may come from something between us and the server (a
proxy, a gateway, a load balancer), which may still forward the request. An answer is the server's own only where its
body has a shape that nothing else makes; every table says for itself what that shape is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Meaning(Enum):
    """What is known after an answer. The values are what the documentation shows."""

    # for memory providers
    REFUSED = "refused"  # nothing landed, and never will
    UNREACHABLE = "unreachable"  # nothing landed, or landing twice is harmless; tried again
    SUSPECT = "unreachable, suspect"  # the same, and the words may be to blame
    UNCERTAIN = "uncertain"  # it may have landed: asked about, and sent again only after the quiet period
    UNCERTAIN_SUSPECT = "uncertain, suspect"
    # for channels
    DECLINED = "declined"  # nothing was posted, and never will be
    NOT_SENT = "not sent"  # nothing was posted; tried again
    DOUBTFUL = "doubtful"  # it may have been posted


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One row. `own` says whether it is about answers that are provably the server's own; None where it is the same."""

    statuses: tuple[range, ...]
    meaning: Meaning
    says: str  # a sentence for people, without a body or a key in it
    own: bool | None = None

    @property
    def shown(self) -> str:
        return ", ".join(_shown(some) for some in self.statuses)


def only(*statuses: int) -> tuple[range, ...]:
    return tuple(range(status, status + 1) for status in statuses)


def answer_to(table: Sequence[Answer], status: int, *, own: bool) -> Answer:
    """The first row that covers the status. Tables end with rows that cover every status."""
    for row in table:
        if row.own in (None, own) and any(status in some for some in row.statuses):
            return row
    return table[-1]


def _shown(some: range) -> str:
    return str(some[0]) if len(some) == 1 else f"{some[0]} to {some[-1]}"
