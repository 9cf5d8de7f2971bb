"""The promise: a dead provider costs one probe now and then, and a live one is used in full."""

import pytest

from holdfast.kernel.ids import Instant
from holdfast.kernel.retry import FAILURES_MAX, CircuitBreaker
from holdfast.memory.delivery import Delivered, Refused, Uncertain, Unreachable
from holdfast.memory.lane import note_outcome

NOW = Instant(1_000_000)
AWAY = Unreachable("connection refused")


def after(circuit, outcome, now=NOW, lane=""):
    note_outcome(circuit, outcome, now, 0.5, lane)
    return circuit


def failed(times):
    circuit = CircuitBreaker()
    for _ in range(times):
        after(circuit, AWAY)
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
        assert after(failed(99), outcome).calls_allowed(NOW, 16) >= 1
        assert not after(failed(99), outcome).is_open


def test_a_provider_that_says_when_to_come_back_is_left_alone_until_then():
    circuit = after(CircuitBreaker(), Unreachable("429", retry_after_ms=60_000))
    assert circuit.calls_allowed(Instant(NOW + 59_999), 16) == 0
    assert circuit.calls_allowed(Instant(NOW + 60_000), 16) == 16
    assert after(circuit, Delivered()).calls_allowed(Instant(NOW + 59_999), 16) == 0, "a call that ran meanwhile"


def test_a_fault_that_may_be_about_the_words_of_one_lane_says_nothing_of_the_provider():
    circuit = CircuitBreaker()
    for outcome in (Unreachable("500", suspect=True), Uncertain("no answer"), Uncertain("502", away=True)) * 9:
        after(circuit, outcome, lane="a")
    assert circuit.calls_allowed(NOW, 16) == 16


@pytest.mark.parametrize("outcome", [Unreachable("500", suspect=True), Uncertain("502", away=True)])
def test_the_same_fault_on_several_lanes_is_the_providers(outcome):
    circuit = CircuitBreaker()
    for lane in "abc":
        assert not circuit.is_open
        after(circuit, outcome, lane=lane)
    assert circuit.is_open
    assert circuit.calls_allowed(NOW, 16) == 0


def test_while_it_is_open_whatever_is_no_success_keeps_it_open_for_longer():
    circuit = failed(FAILURES_MAX)
    for outcome in (Uncertain("it cannot say"), Unreachable("500", suspect=True), AWAY):
        probed_at, failures = circuit.reopens_at, circuit.failures
        after(circuit, outcome, probed_at, "a")
        assert circuit.reopens_at - probed_at > probed_at - NOW or circuit.failures > failures
        assert circuit.calls_allowed(probed_at, 16) == 0


def test_after_an_outage_the_calls_grow_with_every_success():
    circuit = after(failed(FAILURES_MAX), Delivered())
    allowed = []
    for _ in range(5):
        allowed.append(circuit.calls_allowed(NOW, 16))
        after(circuit, Delivered())
    assert allowed == [2, 4, 8, 16, 16]


def test_a_probe_beside_the_calls_is_made_once_while_the_circuit_is_open():
    circuit = failed(FAILURES_MAX)
    assert not circuit.begin_probe(NOW)
    assert circuit.begin_probe(circuit.reopens_at)
    assert not circuit.begin_probe(circuit.reopens_at), "one at a time"
    circuit.is_probing = False
    assert circuit.begin_probe(circuit.reopens_at)
    assert not CircuitBreaker().begin_probe(NOW)
