"""Samples: what a node counted in a minute or an hour, and how much waited at its end, for charts.

Rule 1: a sample belongs to the node that made it. The samples of several nodes are added up; a minute without any is a
        hole, which a chart shows as one.
Rule 2: counts of a minute that a crash interrupted are lost. Nothing else relies on them.
Rule 3: minutes are kept for a day and hours for three months.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from holdfast.kernel.ids import Instant
from holdfast.monitor.queues import OPEN_DELIVERIES, Queues

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class SampleSpan(Enum):
    MINUTE = "minute"
    HOUR = "hour"

    @property
    def length_ms(self) -> int:
        return MINUTE_MS if self is SampleSpan.MINUTE else HOUR_MS

    @property
    def kept_ms(self) -> int:
        return 25 * HOUR_MS if self is SampleSpan.MINUTE else 92 * 24 * HOUR_MS

    def start_of(self, at: Instant) -> Instant:
        return Instant(at - at % self.length_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Numbers by `what/agent` or `what/agent/provider`. Counts add up over time; levels do not."""

    span: SampleSpan
    at: Instant  # the beginning
    counts: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)


def merged(earlier: Mapping[str, Mapping[str, int]], later: Sample) -> dict[str, dict[str, int]]:
    """The counts and levels of a span after another sample of it: counts are added, the largest levels kept."""
    counts = Counter(earlier.get("counts", {}))
    counts.update(later.counts)
    levels = dict(earlier.get("levels", {}))
    for name, level in later.levels.items():
        levels[name] = max(level, levels.get(name, 0))
    return {"counts": dict(counts), "levels": levels}


def levels_of(queues: Queues) -> dict[str, int]:
    """What waits, and the age of the oldest item; a name without a level stands for zero."""
    levels: dict[str, int] = {}
    for agent, queue in queues.messages.items():
        levels[f"waiting/{agent}"] = queue.count("waiting", "in_turn")
        levels[f"age_ms/{agent}"] = queues.age_ms(queue)
    for key, queue in queues.deliveries.items():
        levels[f"undelivered/{key.agent}/{key.provider}"] = queue.count(*OPEN_DELIVERIES)
        levels[f"lag_ms/{key.agent}/{key.provider}"] = queues.age_ms(queue)
    return {name: level for name, level in levels.items() if level}


def added_up(samples: Iterable[Sample]) -> dict[Instant, Sample]:
    """One sample for each time: the sum of the counts of all nodes, and the largest of their levels.

    Every node sees all queues, so their levels are not added.
    """
    found: dict[Instant, dict[str, dict[str, int]]] = {}
    spans: dict[Instant, SampleSpan] = {}
    for one in samples:
        found[one.at] = merged(found.get(one.at, {}), one)
        spans[one.at] = one.span
    return {at: Sample(span=spans[at], at=at, **body) for at, body in found.items()}


# What is counted by a state before the agent.
BY_STATE = frozenset({"replies", "deliveries"})


def agent_of(name: str) -> str:
    """The agent of a count or level."""
    what, *parts = name.split("/")
    return parts[1 if what in BY_STATE else 0]


def of_agents(sample: Sample, sees: Callable[[str], bool]) -> Sample:
    """The part of a sample that concerns agents of a reader."""
    return replace(
        sample,
        counts={name: count for name, count in sample.counts.items() if sees(agent_of(name))},
        levels={name: level for name, level in sample.levels.items() if sees(agent_of(name))},
    )
