"""The story of a trace: equal failures are folded, and nothing else is."""

from holdfast.console.pages.trace import StoryStep, fold
from holdfast.kernel.ids import Instant
from holdfast.monitor.timeline_step import Mark, TimelineStep


def attempts(*proofs, name="honcho", mark=Mark.FAILED):
    steps = [
        TimelineStep(
            at=Instant(n), kind="delivery", what=f"{name}, attempt {n}: failed", proof=one, name=name, mark=mark
        )
        for n, one in enumerate(proofs, start=1)
    ]
    return [StoryStep(step=one, since_ms=0, gap_ms=0, is_long=False, begins="") for one in steps]


def told(story):
    return [(one.step.at, len(one.folded)) for one in fold(story)]


def test_the_middle_of_a_run_of_equal_failures_is_folded_into_its_first():
    assert told(attempts("502", "502", "502", "502", "502")) == [(1, 3), (5, 0)]


def test_failures_with_another_reason_or_of_another_provider_stay():
    assert told(attempts("502", "502", "413", "502", "502")) == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]
    assert len(fold(attempts("502", "502") + attempts("502", "502", name="local"))) == 4


def test_what_succeeded_or_runs_is_never_folded():
    assert len(fold(attempts(*["502"] * 5, mark=Mark.UNCERTAIN))) == 5
