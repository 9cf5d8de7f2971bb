"""Random histories have a platform without redelivery, drafts, agents that message each other, links, moves, operators.

The invariants of these areas are judged in every history that has them; their mutants are tried in `test_mutants`.
"""

from collections import Counter
from functools import cache

import pytest

from holdfast.testing.areas import Area, areas_of
from holdfast.testing.channel_areas import SHARES, VERBS, ChannelArea, channel_areas_of
from holdfast.testing.chats import has_chats
from holdfast.testing.crash import CrashPoint
from holdfast.testing.history import plan_of, run_history, scratch
from holdfast.testing.identities import IdentityLog, LinkChange
from holdfast.testing.report import describe

FIRST = 30_000
SEARCHED = 300
OF_EACH = 4
DECIDED = 30072  # an operator decides before the person who was asked: one history in sixteen
MEANT_FOR_OTHERS = {"drop_draft", "take_stray_drafts"}  # what is left of drafts is rare


@cache
def areas(seed):
    return frozenset() if Area.FORGETTING in areas_of(seed) else channel_areas_of(seed, chats=has_chats(seed))


def seeds_with_areas(of_each):
    """Few seeds that have every area so many times: those with several areas at once."""
    missing, chosen = Counter(dict.fromkeys(ChannelArea, of_each)), []
    while +missing:
        left = (seed for seed in range(FIRST, FIRST + SEARCHED) if seed not in chosen)
        chosen.append(max(left, key=lambda seed: sum(missing[area] > 0 for area in areas(seed))))
        missing.subtract(areas(chosen[-1]))
    return chosen


@pytest.fixture(scope="module")
def verdicts():
    seeds = sorted({DECIDED, *seeds_with_areas(OF_EACH)})
    with scratch() as folder:
        return [run_history(seed, folder=folder) for seed in seeds]


def test_no_history_with_an_area_breaks_an_invariant(verdicts):
    assert "\n".join(describe(one.seed, one.violations) for one in verdicts if one.violations) == ""


def test_the_verbs_of_every_area_are_called(verdicts):
    called = {point.verb for one in verdicts for point in one.passed if isinstance(point, CrashPoint)}
    assert {verb for verbs in VERBS.values() for verb in verbs} - MEANT_FOR_OTHERS <= called


def test_areas_are_drawn_in_their_shares():
    drawn = Counter(area for seed in range(FIRST, FIRST + 2_000) for area in channel_areas_of(seed, chats=True))
    for area, share in SHARES.items():
        assert 0.7 * share < drawn[area] / 2_000 < 1.3 * share


def test_drafts_and_resends_need_a_platform_that_posts():
    drawn = {area for seed in range(FIRST, FIRST + 200) for area in channel_areas_of(seed, chats=False)}
    assert drawn == set(ChannelArea) - {ChannelArea.DRAFTS, ChannelArea.RESEND}


def test_faults_strike_at_the_verbs_of_an_area():
    struck = {
        fault.point.verb
        for seed in range(FIRST, FIRST + 1_000)
        for fault in plan_of(seed).faults
        if hasattr(fault, "point")
    }
    assert {verb for verbs in VERBS.values() for verb in verbs} <= struck


@pytest.mark.parametrize(
    ("since_s", "until_s", "expected"), [(0, 1, False), (1, 3, True), (5, 6, True), (7.5, 9, False)]
)
def test_two_people_may_be_one_from_the_request_to_the_confirmed_end(since_s, until_s, expected):
    made = LinkChange("bob", "ada", True, 2.0, 4.0)
    ended = LinkChange("bob", "ada", False, 6.0, 7.0)
    assert IdentityLog(changes=[made, ended]).may_be_one("ada", "bob", since_s, until_s) is expected
