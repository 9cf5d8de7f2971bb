"""Retries grow apart, never without bound, and the defaults are those that the documentation tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.retry import RetryPolicy
from holdfast.turns.policy import AgentPolicy, Arrivals, TurnPolicy

chances = st.floats(0, 1, exclude_max=True)
policies = st.builds(RetryPolicy, delay_ms_base=st.integers(1, 10_000), delay_ms_max=st.integers(1, 1_000_000))


@given(policies, st.integers(-3, 10_000), chances)
def test_a_delay_is_within_a_quarter_of_its_middle_and_bounded(policy, attempt, chance):
    delay = policy.delay_ms(attempt, chance)
    middle = policy.delay_ms(attempt)
    assert middle <= policy.delay_ms_max
    assert int(middle * 0.75) - 1 <= delay <= middle * 1.25 + 1


@given(policies, st.integers(1, 100))
def test_delays_never_shrink_from_one_attempt_to_the_next(policy, attempt):
    assert policy.delay_ms(attempt) <= policy.delay_ms(attempt + 1)


@pytest.mark.parametrize(
    ("attempt", "delay_ms"), [(0, 500), (1, 500), (2, 1_000), (3, 2_000), (8, 60_000), (99, 60_000)]
)
def test_the_default_delays_double_up_to_a_minute(attempt, delay_ms):
    assert RetryPolicy().delay_ms(attempt) == delay_ms


def test_chance_spreads_retries_over_half_the_delay():
    assert RetryPolicy().delay_ms(1, 0.0) == 375
    assert RetryPolicy().delay_ms(1, 0.999_999) == 624


def test_by_default_a_message_waits_for_its_own_turn_and_a_turn_is_tried_five_times():
    assert TurnPolicy().arrivals is Arrivals.QUEUE
    assert TurnPolicy().turn_attempts_max == 10
    assert AgentPolicy().limits.message_bytes_max == 256 * 1024
    assert AgentPolicy().deliveries == ()


def test_the_names_of_the_arrival_policies_are_what_configurations_say():
    assert {policy.value for policy in Arrivals} == {"queue", "steer", "interrupt", "collect"}
