"""Histories reach the verbs and the loops that they vouch for, and whatever they do not reach is on a list."""

from collections import Counter

import pytest

from holdfast.core.ids import Instant
from holdfast.testing.areas import Area, areas_of
from holdfast.testing.campaign import measured_chunk
from holdfast.testing.coverage import (
    MEASURED_MAX,
    Reached,
    coverage_of,
    known_lines,
    known_verbs,
    reason_for,
    tracing,
)
from holdfast.testing.coverage_left_out import LEFT_OUT
from holdfast.testing.crash import CrashPoint
from holdfast.testing.loop_faults import IN_AREAS, IN_CHATS, LOOPS
from holdfast.testing.report import describe

FIRST = 1
VERBS_MIN = 73.0  # percent of the store's verbs
LOOPS_MIN = 70.0  # percent of the loops' lines


@pytest.fixture(scope="module")
def measured():
    return measured_chunk(range(FIRST, FIRST + MEASURED_MAX))


def test_two_hundred_histories_reach_most_verbs_and_most_of_every_loop(measured):
    verdicts, reached = measured
    assert "".join(describe(one.seed, one.violations) for one in verdicts if one.violations) == ""
    coverage = coverage_of(reached)
    assert coverage.unexplained == ()
    assert coverage.verbs_percent >= VERBS_MIN
    assert coverage.loops_percent >= LOOPS_MIN


def test_every_loop_meets_faults_at_the_verbs_it_calls(measured):
    verdicts, _ = measured
    struck = {point.verb for one in verdicts for point in one.struck}
    tables = [LOOPS, *IN_AREAS.values(), IN_CHATS]
    assert {verb for table in tables for verbs in table.values() for verb in verbs} - struck == set()


def test_every_area_is_in_some_of_the_histories(measured):
    found = {area: sum(area in areas_of(one.seed) for one in measured[0]) for area in Area}
    assert min(found.values()) >= 5, found
    counts: Counter[str] = Counter()
    for one in measured[0]:
        counts += one.counts
    assert min(counts[what] for what in ("backfill", "lost index", "question", "pruned", "spend", "expired")) > 5


def test_what_was_not_reached_is_named():
    reached = Reached()
    reached.came_by([CrashPoint("accept", "before"), CrashPoint("no such verb", "before"), "statement"])
    coverage = coverage_of(reached)
    assert (coverage.histories, coverage.verbs_reached, coverage.verbs) == (1, 1, len(known_verbs()))
    assert "store.accept" not in coverage.verbs_missing
    assert "store.commit_turn" in coverage.verbs_missing
    assert set(coverage.functions_missing) == {name for name, lines in known_lines().items() if lines}


def test_only_lines_that_ran_count():
    from holdfast.loops.zones import zone_offset

    reached = Reached()
    with tracing(reached):
        assert zone_offset("UTC")(Instant(0)) == 0
    assert set(reached.lines) == {"loops.zones.zone_offset"}
    assert reached.lines["loops.zones.zone_offset"] <= known_lines()["loops.zones.zone_offset"]


def test_every_entry_of_the_list_names_something_and_says_why():
    names = {f"store.{verb}" for verb in known_verbs()} | set(known_lines())
    assert [entry for entry in LEFT_OUT if not any(f"{name}.".startswith(f"{entry}.") for name in names)] == []
    assert all(LEFT_OUT.values())


def test_the_reason_of_a_class_or_module_holds_for_its_functions(monkeypatch):
    monkeypatch.setitem(LEFT_OUT, "loops.nowhere", "made up")
    assert reason_for("loops.nowhere.Class.method") == "made up"
    assert reason_for("loops.elsewhere.Class.method") is None
