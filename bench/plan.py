"""The plan: the sections in the order of a run. A quick run has the same sections and contestants, at small sizes."""

from collections.abc import Iterable

from bench.conversation_plan import (
    SECTION_ANSWER,
    SECTION_APPEND,
    SECTION_CONTEXT,
    SECTION_DISK,
    SECTION_GROWTH,
    SECTION_PROVIDERS,
    SECTION_STREAMING,
)
from bench.section import Section
from bench.service_plan import SECTION_ACCEPT, SECTION_FOOTPRINT, SECTION_JOBS, SECTION_RECALL, SECTION_TRIPS

REPETITIONS = 5

SECTIONS = (
    SECTION_APPEND,
    SECTION_ANSWER,
    SECTION_STREAMING,
    SECTION_GROWTH,
    SECTION_CONTEXT,
    SECTION_PROVIDERS,
    SECTION_JOBS,
    SECTION_TRIPS,
    SECTION_RECALL,
    SECTION_ACCEPT,
    SECTION_DISK,
    SECTION_FOOTPRINT,
)


def chosen(names: Iterable[str]) -> tuple[Section, ...]:
    wanted = frozenset(names)
    return tuple(section for section in SECTIONS if not wanted or section.name in wanted)
