"""Histories reach the verbs and the loops that they test, and a list names everything they do not reach.

They meet every kind of fault, and break no invariant.
"""

from collections import Counter
from contextlib import nullcontext

from holdfast.kernel.ids import Instant
from holdfast.testing.areas import Area, areas_of
from holdfast.testing.channel_areas import ChannelArea, channel_areas_of
from holdfast.testing.chats import has_chats
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
from holdfast.testing.history import scratch
from holdfast.testing.loop_faults import IN_AREAS, IN_CHATS, LOOPS
from holdfast.testing.report import describe
from tests.simulation.short import MEASURED, short

VERBS_MIN = 85.0  # percent of the store's verbs
LOOPS_MIN = 85.0  # percent of the loops' lines
TRACED = 20  # histories, before it is asked whether their lines are enough
COUNTED = ("backfill", "lost index", "question", "pruned", "spend", "expired")


def test_two_hundred_histories_reach_most_verbs_and_most_of_every_loop_and_meet_every_kind_of_fault():
    """One test for all of it: the histories run once, and those whose lines are traced cost twice as much.

    So they are traced, some at a time, only until they have reached what all of them must reach.
    """
    reached, verdicts = Reached(), []
    with scratch() as folder:
        for some in batched(MEASURED, TRACED):
            with nullcontext() if is_enough(coverage_of(reached)) else tracing(reached):
                verdicts += [short(seed, folder) for seed in some]
            for one in verdicts[-len(some) :]:
                reached.came_by(one.passed, one.struck)
    assert "".join(describe(one.seed, one.violations) for one in verdicts if one.violations) == ""
    coverage = coverage_of(reached)
    assert coverage.histories == MEASURED_MAX
    assert coverage.unexplained == ()
    assert coverage.verbs_percent >= VERBS_MIN
    assert coverage.loops_percent >= LOOPS_MIN
    assert verbs_of_loops() - {point.verb for one in verdicts for point in one.struck} == set()
    counts = sum((one.counts for one in verdicts), Counter[str]())
    assert min(counts[what] for what in COUNTED) > 5, counts
    assert_much_goes_wrong(verdicts, counts)


def assert_much_goes_wrong(verdicts, counts):
    """A simulator that breaks nothing proves nothing. A fifth of all calls to providers goes wrong."""
    assert sum(one.kills for one in verdicts) > 70
    assert sum(one.pauses for one in verdicts) > 70
    assert sum(one.stops for one in verdicts) > 20
    assert {kind for one in verdicts for kind in one.crashes} == {
        "verb",
        "failed verb",
        "statement",
        "commit",
        "committed",
    }
    assert counts["summary"] > 200
    assert counts["delivery"] > 700
    assert counts["effect"] > 700
    assert counts["finalisation"] > 35
    assert counts["provider_call"] > 4_000
    assert 0.15 < counts["provider_fault"] / counts["provider_call"] < 0.25
    assert all(one.counts["provider_fault"] for one in verdicts if one.counts["provider_call"] > 20)


def batched(seeds, size):
    return [seeds[n : n + size] for n in range(0, len(seeds), size)]


def is_enough(coverage):
    """Whether the lines reached are enough. The verbs are known of every history, traced or not."""
    functions = [name for name in coverage.functions_missing if reason_for(name) is None]
    return not functions and coverage.loops_percent >= LOOPS_MIN


def verbs_of_loops():
    tables = [LOOPS, *IN_AREAS.values(), IN_CHATS]
    return {verb for table in tables for verbs in table.values() for verb in verbs}


def test_every_area_is_in_some_of_the_histories():
    drawn = [(areas_of(seed), channel_areas_of(seed, chats=has_chats(seed))) for seed in MEASURED]
    found = Counter(area for pair in drawn for areas in pair for area in areas)
    assert min(found[area] for area in (*Area, *ChannelArea)) >= 5, found


def test_what_was_not_reached_is_named():
    reached = Reached()
    reached.came_by([CrashPoint("accept_message", "before"), CrashPoint("no such verb", "before"), "statement"])
    coverage = coverage_of(reached)
    assert (coverage.histories, coverage.verbs_reached, coverage.verbs) == (1, 1, len(known_verbs()))
    assert "store.accept_message" not in coverage.verbs_missing
    assert "store.commit_turn" in coverage.verbs_missing
    assert set(coverage.functions_missing) == {name for name, lines in known_lines().items() if lines}


def test_only_lines_that_ran_count():
    from holdfast.kernel.time_zones import zone_offset

    reached = Reached()
    with tracing(reached):
        assert zone_offset("UTC")(Instant(0)) == 0
    assert set(reached.lines) == {"kernel.time_zones.zone_offset"}
    assert reached.lines["kernel.time_zones.zone_offset"] <= known_lines()["kernel.time_zones.zone_offset"]


def test_every_entry_of_the_list_names_something_and_says_why():
    names = {f"store.{verb}" for verb in known_verbs()} | set(known_lines())
    assert [entry for entry in LEFT_OUT if not any(f"{name}.".startswith(f"{entry}.") for name in names)] == []
    assert all(LEFT_OUT.values())


def test_the_reason_of_a_class_or_module_holds_for_its_functions(monkeypatch):
    monkeypatch.setitem(LEFT_OUT, "turns.nowhere", "made up")
    assert reason_for("turns.nowhere.Class.method") == "made up"
    assert reason_for("turns.elsewhere.Class.method") is None
