"""The promise: a dead provider costs one probe now and then, and a live one is used in full."""

import pytest

from holdfast.kernel.ids import Instant
from holdfast.memory.circuit_breaker import FAILURES_MAX, Circuit
from holdfast.memory.delivery import Delivered, Refused, Uncertain, Unreachable

NOW = Instant(1_000_000)
AWAY = Unreachable("connection refused")


def failed(times, circuit=None):
    circuit = circuit or Circuit()
    for _ in range(times):
        circuit = circuit.after(AWAY, NOW, 0.5)
    return circuit


def test_a_few_failures_change_nothing():
    assert failed(FAILURES_MAX - 1).calls_allowed(NOW, 16) == 16


def test_failures_in_a_row_stop_all_calls_for_a_while():
    circuit = failed(FAILURES_MAX)
    assert circuit.calls_allowed(NOW, 16) == 0
    assert circuit.calls_allowed(Instant(circuit.reopens_at - 1), 16) == 0


def test_then_one_call_finds_out():
    circuit = failed(FAILURES_MAX)
    assert circuit.calls_allowed(circuit.reopens_at, 16) == 1


def test_each_failed_probe_waits_longer_up_to_a_limit():
    waits = [failed(FAILURES_MAX + more).reopens_at - NOW for more in range(12)]
    assert waits == sorted(waits)
    assert waits[-1] == waits[-2]


def test_a_delivery_closes_the_circuit():
    for outcome in (Delivered(), Refused("too long")):
        assert failed(99).after(outcome, NOW, 0.5).calls_allowed(NOW, 16) >= 1
        assert not failed(99).after(outcome, NOW, 0.5).is_open


def test_a_provider_that_says_when_to_come_back_is_left_alone_until_then():
    circuit = Circuit().after(Unreachable("429", retry_after_ms=60_000), NOW, 0.5)
    assert circuit.calls_allowed(Instant(NOW + 59_999), 16) == 0
    assert circuit.calls_allowed(Instant(NOW + 60_000), 16) == 16


def test_a_fault_that_may_be_about_the_words_of_one_lane_says_nothing_of_the_provider():
    circuit = Circuit()
    for outcome in (Unreachable("500", suspect=True), Uncertain("no answer"), Uncertain("502", away=True)) * 9:
        circuit = circuit.after(outcome, NOW, 0.5, "a")
    assert circuit.calls_allowed(NOW, 16) == 16


@pytest.mark.parametrize("outcome", [Unreachable("500", suspect=True), Uncertain("502", away=True)])
def test_the_same_fault_on_several_lanes_is_the_providers(outcome):
    circuit = Circuit()
    for lane in "abc":
        assert not circuit.is_open
        circuit = circuit.after(outcome, NOW, 0.5, lane)
    assert circuit.is_open
    assert circuit.calls_allowed(NOW, 16) == 0


def test_while_it_is_open_whatever_is_no_success_keeps_it_open_for_longer():
    circuit = failed(FAILURES_MAX)
    for outcome in (Uncertain("it cannot say"), Unreachable("500", suspect=True), AWAY):
        later = circuit.after(outcome, circuit.reopens_at, 0.5, "a")
        assert later.reopens_at - circuit.reopens_at > circuit.reopens_at - NOW or later.failures > circuit.failures
        assert later.calls_allowed(circuit.reopens_at, 16) == 0
        circuit = later


def test_after_an_outage_the_calls_grow_with_every_success():
    circuit = failed(FAILURES_MAX).after(Delivered(), NOW, 0.5)
    allowed = []
    for _ in range(5):
        allowed.append(circuit.calls_allowed(NOW, 16))
        circuit = circuit.after(Delivered(), NOW, 0.5)
    assert allowed == [2, 4, 8, 16, 16]
