"""Histories reach the verbs and the loops that they vouch for, and whatever they do not reach is on a list."""

from holdfast.core.ids import Instant
from holdfast.testing.coverage import (
    Reached,
    coverage_of,
    known_lines,
    known_verbs,
    reason_for,
    tracing,
)
from holdfast.testing.coverage_left_out import LEFT_OUT
from holdfast.testing.crash import CrashPoint


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
