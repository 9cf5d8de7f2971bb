"""A session's timeline shows durations on one scale, and folds the long times in which nothing happened."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.console import timeline_drawing
from holdfast.console.time_axis import LEFT, RIGHT, TimeAxis
from holdfast.monitor.session_step import Kind, SessionStep

axis_of: Any = TimeAxis  # instants of tests are plain numbers
draw: Any = timeline_drawing.draw


def step(at, until=None, lane="Model", **more):
    return SessionStep(lane=lane, kind=Kind.MODEL, at=at, until=until, what="call", **more)


def test_durations_are_on_one_scale_and_a_long_pause_is_folded():
    axis = axis_of([0, 1_000, 4_000, 600_000, 602_000])
    (fold,) = axis.folds
    assert (fold.since, fold.until, fold.width) == (4_000, 600_000, 3.0)
    second = axis.place(1_000) - axis.place(0)
    assert axis.place(4_000) - axis.place(1_000) == pytest.approx(3 * second)
    assert axis.place(602_000) - axis.place(600_000) == pytest.approx(2 * second)
    assert (axis.place(0), axis.place(602_000)) == (LEFT, pytest.approx(RIGHT))
    assert axis.starts == (0, 600_000)


def test_a_short_pause_is_not_folded():
    assert axis_of([0, 10, 3_100]).folds == ()


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_places_keep_the_order_of_time_and_stay_on_the_axis(instants):
    axis = axis_of(instants)
    places = [axis.place(at) for at in sorted(instants)]
    assert places == sorted(places)
    assert min(places) >= LEFT
    assert max(places) <= RIGHT + 1e-6
    assert [axis.place(-1), axis.place(10**10)] == [places[0], places[-1]]


def test_a_step_that_goes_on_ends_now_and_every_lane_has_its_place():
    drawn = draw([step(0, 500), step(400, lane="Turn", goes_on=True), step(500, lane="honcho")], 2_000)
    by_lane = {one.step.lane: one for one in drawn.steps}
    assert drawn.now == pytest.approx(RIGHT)
    assert by_lane["Turn"].x + by_lane["Turn"].width == pytest.approx(RIGHT, abs=0.01)
    assert [(lane.name, lane.has_rule) for lane in drawn.lanes] == [("Turn", False), ("Model", False), ("honcho", True)]
    assert sorted(one.y for one in drawn.steps) == [lane.y for lane in drawn.lanes]


def test_a_label_never_runs_into_the_next_step_of_its_lane():
    steps = [step(n * 100, n * 100 + 1, label="a long label of a step") for n in range(30)]
    drawn = draw(steps, 0)
    assert [one.label for one in drawn.steps[:-1]] == [""] * 29
    assert draw([], 0) is None
