"""The timeline of a message: what happened to it in order, each step with its time, and one sentence about how it
stands. Commands, the API and the console show the same timeline.

Rule 1: a step says what is known. What is not known (a process died, an answer was lost) is said, never guessed.
Rule 2: a step has no words of people. Reasons are those of the store.
Rule 3: the same facts give the same timeline.
"""

from dataclasses import dataclass

from holdfast.monitor.send_steps import remembered, replied
from holdfast.monitor.timeline_step import Chapter, TimelineStep
from holdfast.monitor.trace import TraceFacts
from holdfast.monitor.turn_steps import accepted, afterwards, turned, waited
from holdfast.monitor.verdict import needs_you, verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    verdict: str
    needs_you: bool  # a person has to act before it goes on, or something could not be proved
    steps: tuple[TimelineStep, ...]


def timeline(facts: TraceFacts) -> Timeline:
    makers = (accepted, waited, turned, replied, remembered, afterwards)
    steps = [step for make in makers for step in make(facts)]
    steps.sort(key=lambda step: (step.chapter is Chapter.REMEMBERED, step.at, step.rank))
    return Timeline(verdict=verdict(facts), needs_you=needs_you(facts), steps=tuple(steps))
