"""One step of a session's timeline, and the lanes in which the steps are drawn.

Rule 1: a step says what is known. A step that goes on has no end; one whose outcome is not known is marked so.
Rule 2: the payload of a step is what the journal has of it: words of people, arguments and results of tools. It is for
        callers who may read everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from holdfast.kernel.ids import Instant
from holdfast.monitor.timeline_step import Mark

PAYLOAD_CHARS_MAX = 20_000  # of one step
PAYLOADS_CHARS_MAX = 200_000  # of all steps of a part: a page is asked for again every few seconds
TITLE_CHARS_MAX = 80


class Kind(Enum):
    """Who acted; a timeline has a colour for each."""

    MODEL = "model"
    TOOL = "tool"
    PERSON = "person"
    MEMORY = "memory"
    OURS = "ours"


INBOUND, MAILBOX, TURN, MODEL, TOOLS, PERSON = "Inbound", "Mailbox", "Turn", "Model", "Tools", "Person"
JOURNAL, REPLY, UPKEEP = "Journal", "Reply", "Upkeep"
LANES = (INBOUND, MAILBOX, TURN, MODEL, TOOLS, PERSON, JOURNAL, REPLY)  # then one for each provider, then upkeep


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStep:
    lane: str
    kind: Kind
    at: Instant
    until: Instant | None = None
    what: str
    label: str = ""  # a short name for the drawing; `what` unless set
    mark: Mark = Mark.DONE
    is_point: bool = False  # an event without a duration
    is_commit: bool = False  # from here on it cannot be lost
    goes_on: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    payload_name: str = ""
    payload: str = ""
    payload_cut: int = 0  # characters that were left out
    turn: int | None = None
    links: tuple[tuple[str, str], ...] = field(default=())  # kind and id of what is shown elsewhere

    @property
    def duration_ms(self) -> int | None:
        return None if self.until is None else max(0, self.until - self.at)

    @property
    def is_trouble(self) -> bool:
        return self.mark in {Mark.FAILED, Mark.UNCERTAIN, Mark.LOST}


def lanes(steps: Sequence[SessionStep]) -> tuple[str, ...]:
    """The lanes that have a step, in their fixed order."""
    used = dict.fromkeys(step.lane for step in steps)
    providers = sorted(lane for lane in used if lane not in {*LANES, UPKEEP})
    return tuple(lane for lane in (*LANES, *providers, UPKEEP) if lane in used)


def within_limits(steps: Sequence[SessionStep]) -> list[SessionStep]:
    """The steps with shorter payloads where they are too long, and without those of the oldest if all are too long."""
    found, left = list[SessionStep](), PAYLOADS_CHARS_MAX
    for step in reversed(steps):
        room = min(left, PAYLOAD_CHARS_MAX)
        left -= min(len(step.payload), room)
        over = max(0, len(step.payload) - room)
        found.append(replace(step, payload=step.payload[:room], payload_cut=over) if over else step)
    return found[::-1]


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def known(**facts: object) -> tuple[tuple[str, str], ...]:
    """The facts that have a value, under their names with blanks."""
    told = [(name.strip("_").replace("_", " "), value) for name, value in facts.items()]
    return tuple((name, str(value)) for name, value in told if value is not None and value not in {"", ()})
