"""One step of a timeline: what happened, when, for how long, and how it ended."""

from dataclasses import dataclass, field
from enum import Enum

from holdfast.kernel.ids import Instant


class Mark(Enum):
    """How a step ended."""

    DONE = "done"  # and durable
    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    LOST = "lost"  # a process ended without a word


class Chapter(Enum):
    SAID = "said"  # from the message to its reply
    REMEMBERED = "remembered"  # memory providers


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """`kind` names what acted: message, queue, turn, recall, model, tool, approval, compression, process, reply, agent,
    delivery, command.
    """

    at: Instant
    until: Instant | None = None  # None if it has no duration, or goes on
    kind: str
    what: str
    proof: str = ""  # ids, numbers and reasons
    mark: Mark = Mark.DONE
    chapter: Chapter = Chapter.SAID
    name: str = ""  # of the model, tool, provider, channel or process
    rank: int = field(default=0, repr=False)  # orders steps of one millisecond

    @property
    def duration_ms(self) -> int | None:
        return None if self.until is None else max(0, self.until - self.at)


def joined(*parts: str | None) -> str:
    """The known parts of a proof, as one sentence without its full stop."""
    return "; ".join(part.removesuffix(".") for part in parts if part)
