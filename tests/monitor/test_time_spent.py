"""The strip of a message's time: every moment belongs to one kind of work, and a long wait does not hide the rest."""

from holdfast.kernel.ids import Instant
from holdfast.monitor.time_spent import FOLDED_SHARE, time_spent
from holdfast.monitor.timeline import Timeline
from holdfast.monitor.timeline_step import Chapter, Mark, TimelineStep


def step(kind, at, until=None, mark=Mark.DONE, chapter=Chapter.SAID):
    end = None if until is None else Instant(until)
    return TimelineStep(at=Instant(at), until=end, kind=kind, what=kind, mark=mark, chapter=chapter)


def spent(*steps, ended=None, now=100_000):
    told = Timeline(verdict="", needs_you=False, steps=steps)
    return time_spent(
        told, accepted_at=Instant(0), ended_at=None if ended is None else Instant(ended), now=Instant(now)
    )


def test_moments_between_steps_are_holdfasts_own_and_all_moments_are_told_once():
    found = spent(step("queue", 0, 40), step("model", 50, 450), step("tool", 450, 600), ended=610)
    assert dict(found.by_kind) == {"queue": 40, "ours": 20, "model": 400, "tool": 150}
    assert (found.total_ms, sum(one.ms for one in found.spans), found.is_open) == (610, 610, False)
    assert abs(sum(one.share for one in found.spans) - 1) < 1e-9


def test_a_step_beside_another_wins_by_its_kind():
    found = spent(step("approval", 0, 100), step("model", 20, 50), ended=100)
    assert dict(found.by_kind) == {"model": 30, "approval": 70}


def test_a_long_wait_is_folded_and_a_long_answer_is_not():
    waited = spent(step("model", 0, 2_000), step("approval", 2_000, 900_000), ended=901_000)
    assert [one.is_folded for one in waited.spans] == [False, True, False]
    assert abs(waited.spans[1].share - FOLDED_SHARE) < 0.01
    worked = spent(step("queue", 0, 100), step("model", 100, 900_000), ended=901_000)
    assert not any(one.is_folded for one in worked.spans)


def test_what_goes_on_lasts_until_now_and_what_has_no_end_is_a_moment():
    found = spent(step("model", 0, 10), step("approval", 10, mark=Mark.WAITING), step("approval", 5), now=5_000)
    assert dict(found.by_kind) == {"model": 10, "approval": 4_990}
    assert found.is_open


def test_nothing_is_told_of_a_message_without_a_wait_or_a_turn():
    assert spent(step("message", 0), step("delivery", 5, 9, chapter=Chapter.REMEMBERED)) is None
    assert spent(step("queue", 0, 0), ended=0) is None
