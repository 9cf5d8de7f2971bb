"""An unreachable provider never parks a delivery, a refusal parks it at once, an uncertain one is looked up, and
nothing is resent blindly.
"""

from dataclasses import replace

import pytest

from holdfast.kernel.ids import AgentName, DeliveryId, NodeId, Principal, Provider, SessionId
from holdfast.memory.delivery import (
    Delivered,
    DeliveryState,
    Landing,
    NamingInputs,
    Op,
    Outcome,
    Parcel,
    Refused,
    Uncertain,
    Unreachable,
)
from holdfast.memory.lane import (
    UNKNOWN,
    DispatchPolicy,
    LaneClaim,
    LaneKey,
    Package,
    Settlement,
    Tally,
    Wellness,
    after_asking,
    may_park,
    settle,
    settle_all,
    too_early,
)

POLICY = DispatchPolicy()
WELL = Wellness(healthy=True, failing_share=0.05)
NAMING = NamingInputs(agent=AgentName("fern"), session=SessionId("s"), principal=Principal("ada"))


def package(n=1, *, attempt=1, **more):
    parcel = Parcel(
        id=DeliveryId(f"mem:s:{n}"), op=Op.RETAIN, provider=Provider("mem"), place="s", naming=NAMING, attempt=attempt
    )
    return Package(n=n, parcel=parcel, ask=False, **more)


def settled(outcome, *, known=UNKNOWN, **more):
    return settle(package(**more), outcome, POLICY, 0.5, known)


def asked(landing, *, quiet_ms=30_000, known=UNKNOWN, **more):
    return after_asking(package(**more), landing, POLICY, quiet_ms=quiet_ms, chance=0.5, known=known)


def test_an_acknowledged_delivery_is_delivered_with_its_receipt():
    done = settled(Delivered("op-1"))
    assert (done.state, done.receipt) == (DeliveryState.DELIVERED, "op-1")


def test_a_refused_delivery_is_parked_at_once_with_the_reason():
    done = settled(Refused("too long"))
    assert (done.state, done.reason) == (DeliveryState.PARKED, "too long")


@pytest.mark.parametrize("attempt", [1, 10, 1_000_000])
def test_an_unreachable_provider_is_tried_again_however_long_it_takes(attempt):
    done = settled(Unreachable("connection refused"), attempt=attempt, failing_for_ms=10**12, known=WELL)
    assert done.state is DeliveryState.SCHEDULED
    assert 0 < done.delay_ms <= POLICY.retry.delay_ms_max * 1.25


def test_the_provider_says_when_to_come_back():
    assert settled(Unreachable("slow down", retry_after_ms=999_000)).delay_ms == 999_000


def test_delays_grow_with_the_attempts_and_differ_by_chance():
    delays = [settle(package(attempt=n), Unreachable("x"), POLICY, 0.5, UNKNOWN).delay_ms for n in (1, 2, 3, 4)]
    assert delays == sorted(delays)
    low, high = (settle(package(), Unreachable("x"), POLICY, chance, UNKNOWN).delay_ms for chance in (0.0, 0.99))
    assert low < high


def test_words_that_a_well_provider_fails_on_again_and_again_are_parked():
    poison = Unreachable("500", suspect=True)
    tried = POLICY.suspects_max - 1
    assert settled(poison, suspect=tried, others_taken=True, known=WELL).state is DeliveryState.PARKED
    assert settled(poison, suspect=tried - 1, others_taken=True, known=WELL).state is DeliveryState.SCHEDULED
    assert settled(poison, suspect=tried, known=WELL).state is DeliveryState.SCHEDULED, "it has taken nothing since"
    assert settled(poison, suspect=99, known=UNKNOWN).state is DeliveryState.SCHEDULED, "it may be the provider"


@pytest.mark.parametrize(("share", "needed"), [(0.1, 8), (0.4, 16), (0.6, 28), (0.9, 132)])
def test_failures_that_chance_explains_park_nothing(share, needed):
    """A provider that fails on this share of everything fails on a good unit so often once in a million."""
    poison, known = Unreachable("500", suspect=True), Wellness(healthy=True, failing_share=share)
    assert settled(poison, suspect=needed - 1, known=known).state is DeliveryState.SCHEDULED
    assert settled(poison, suspect=needed, known=known).state is DeliveryState.PARKED


def test_a_unit_alone_is_parked_on_the_providers_own_word_only_after_a_long_wait():
    poison, wait = Unreachable("500", suspect=True), {"attempt": 50, "failing_for_ms": POLICY.poison_wait_ms}
    healthy = Wellness(healthy=True, alone=True)
    late = settled(poison, known=healthy, **wait)
    assert late.state is DeliveryState.PARKED
    assert late.reason is not None
    assert "accepts others" not in late.reason
    assert settled(poison, known=Wellness(healthy=True), **wait).state is DeliveryState.SCHEDULED
    assert settled(poison, known=Wellness(alone=True), **wait).state is DeliveryState.SCHEDULED
    wait["failing_for_ms"] -= 1
    assert settled(poison, known=healthy, **wait).state is DeliveryState.SCHEDULED


def test_an_uncertain_parked_unit_says_so_and_is_asked_about_when_it_is_replayed():
    done = settled(Uncertain("413", suspect=True), suspect=20, known=WELL)
    assert (done.state, done.doubtful) == (DeliveryState.PARKED, True)
    assert "may have arrived" in str(done.reason)
    assert not settled(Unreachable("500", suspect=True), suspect=20, known=WELL).doubtful


def test_the_tally_counts_the_others_only():
    tally = Tally()
    assert tally.failing_share("a") == 0.5
    for _ in range(98):
        tally.note(Unreachable("500", suspect=True), "a")
        tally.note(Delivered(), "b")
    assert tally.failing_share("a") == 1 / 100
    assert tally.failing_share("b") > 0.98


def test_a_unit_is_alone_while_no_other_lane_fails():
    tally = Tally()
    tally.note(Unreachable("500", suspect=True), "a")
    tally.note(Unreachable("refused"), "b")
    assert tally.is_alone("a")
    tally.note(Uncertain("413", suspect=True), "b")
    assert not tally.is_alone("a")
    tally.note(Delivered(), "c")
    assert tally.is_alone("a")
    tally.parked_alone = True
    assert not tally.is_alone("a"), "a second one in a row shows that the provider is ill"
    tally.note(Delivered(), "c")
    assert tally.is_alone("a")


def test_a_provider_is_asked_for_its_health_only_when_something_would_be_parked():
    assert not may_park(package(), POLICY)
    assert may_park(package(suspect=POLICY.suspects_max), POLICY)
    assert may_park(package(suspect=POLICY.suspects_max - 1, others_taken=True), POLICY)
    assert may_park(package(failing_for_ms=POLICY.poison_wait_ms), POLICY)
    assert may_park(package(uncertain_for_ms=POLICY.uncertain_wait_ms), POLICY)


def test_the_wait_that_was_asked_for_holds_for_a_doubt_too():
    assert settled(Uncertain("429", retry_after_ms=999_000)).delay_ms == 999_000


def test_an_uncertain_delivery_is_asked_about_later():
    done = settled(Uncertain("no answer"))
    assert (done.state, done.again) == (DeliveryState.UNCERTAIN, False)
    assert done.delay_ms > 0


def test_what_landed_is_delivered():
    assert asked(Landing.LANDED).state is DeliveryState.DELIVERED


def test_what_is_absent_is_sent_again_only_after_the_quiet_period():
    early = asked(Landing.ABSENT, uncertain_for_ms=29_999)
    assert (early.state, early.delay_ms, early.again) == (DeliveryState.UNCERTAIN, 1, False)
    late = asked(Landing.ABSENT, uncertain_for_ms=30_000)
    assert (late.state, late.again) == (DeliveryState.SCHEDULED, True)


def test_an_unknown_outcome_is_parked_after_a_long_wait_while_the_provider_is_healthy():
    wait = POLICY.uncertain_wait_ms
    assert asked(Landing.POSSIBLE, uncertain_for_ms=wait, known=WELL).state is DeliveryState.PARKED
    assert asked(Landing.POSSIBLE, uncertain_for_ms=wait, known=UNKNOWN).state is DeliveryState.UNCERTAIN
    assert asked(Landing.POSSIBLE, uncertain_for_ms=wait - 1, known=WELL).state is DeliveryState.UNCERTAIN


def test_what_was_not_sent_behind_a_failure_counts_as_not_tried():
    outcomes: list[Outcome] = [Delivered(), Unreachable("x"), Unreachable("x"), Unreachable("x")]
    done = settle_all([package(n) for n in (1, 2, 3, 4)], outcomes, POLICY, 0.5, UNKNOWN)
    assert [one.untried for one in done] == [False, False, True, True]
    assert [one.state.value for one in done] == ["delivered", "scheduled", "scheduled", "scheduled"]


def test_a_unit_that_may_have_landed_behind_a_failure_is_uncertain_and_not_resent():
    outcomes: list[Outcome] = [Delivered(), Uncertain("cut off"), Uncertain("cut off"), Delivered()]
    done = settle_all([package(n) for n in (1, 2, 3, 4)], outcomes, POLICY, 0.5, UNKNOWN)
    assert [one.untried for one in done] == [False, False, False, False]
    assert [one.state.value for one in done] == ["delivered", "uncertain", "uncertain", "delivered"]


def test_a_provider_answers_about_each_package():
    with pytest.raises(ValueError, match="shorter"):
        settle_all([package(1), package(2)], [Delivered()], POLICY, 0.5, UNKNOWN)


def test_an_attempt_that_may_still_arrive_leaves_a_doubt():
    quiet = Settlement(n=1, state=DeliveryState.SCHEDULED)
    assert not quiet.leaves_doubt
    assert replace(quiet, failing=True).leaves_doubt
    assert replace(quiet, again=True).leaves_doubt
    assert replace(quiet, doubtful=True).leaves_doubt
    assert replace(quiet, state=DeliveryState.UNCERTAIN).leaves_doubt


def test_what_follows_a_parked_one_goes_on():
    done = settle_all([package(1), package(2)], [Refused("no"), Delivered()], POLICY, 0.5, UNKNOWN)
    assert [one.state.value for one in done] == ["parked", "delivered"]


def test_a_providers_reason_fits_on_a_line_of_a_table():
    reason = settled(Refused("a\0b\n" + "c" * 9_999)).reason
    assert reason is not None
    assert reason.startswith("ab c")
    assert len(reason) == 400


@pytest.mark.parametrize("op", [Op.RETRACT, Op.ERASE])
def test_words_are_taken_away_only_when_no_earlier_attempt_can_arrive_any_more(op):
    """A request that a proxy forwards late would bring them back."""
    given = package()
    given = replace(given, parcel=replace(given.parcel, op=op))

    def waits(doubted_for_ms):
        lane = LaneClaim(
            key=LaneKey(AgentName("fern"), Provider("mem")),
            place="s",
            fence=1,
            node=NodeId("n"),
            packages=(given,),
            doubted_for_ms=doubted_for_ms,
        )
        done = too_early(lane, given, 30_000)
        return None if done is None else (done.state, done.untried, done.delay_ms)

    assert waits(None) is None
    assert waits(30_000) is None
    assert waits(29_000) == (DeliveryState.SCHEDULED, True, 1_000)


def test_what_adds_words_does_not_wait_for_that():
    given = package()
    lane = LaneClaim(
        key=LaneKey(AgentName("fern"), Provider("mem")),
        place="s",
        fence=1,
        node=NodeId("n"),
        packages=(given,),
        doubted_for_ms=0,
    )
    assert too_early(lane, given, 30_000) is None
