"""The circuit breaker of recall: a hanging provider delays a few turns by their recall budget, and then none.

While the circuit of a provider is open, turns skip the provider and report that. From time to time the query of one
turn is also sent to it as a probe, and the turn does not wait for the answer; an answer within the recall budget closes
the circuit. The circuits are in RAM, one per provider and agent, shared by all recalls of the process.
"""

from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.memory.circuit_breaker import Circuit
from holdfast.memory.lane import LaneKey


class RecallBreaker:
    def __init__(self, circuits: dict[LaneKey, Circuit], clock: Clock, entropy: Entropy) -> None:
        self._circuits = circuits
        self._clock = clock
        self._entropy = entropy
        self._probed: set[LaneKey] = set()

    def why_not(self, key: LaneKey) -> str | None:
        """The reason to skip the provider; None if it is queried."""
        circuit = self._circuits.get(key)
        if circuit is None or not circuit.is_open:
            return None
        return f"{key.provider} was not asked: it did not answer {circuit.failures} times in a row"

    def begin_probe(self, key: LaneKey) -> bool:
        """Whether a probe is due; True only once until that probe has ended."""
        circuit = self._circuits.get(key, Circuit())
        if not circuit.is_open or key in self._probed or self._clock.now() < circuit.reopens_at:
            return False
        self._probed.add(key)
        return True

    def end_probe(self, key: LaneKey) -> None:
        self._probed.discard(key)

    def answered(self, key: LaneKey) -> None:
        self._circuits.pop(key, None)

    def missed(self, key: LaneKey) -> None:
        """Record a failure, or an answer that exceeded the budget."""
        before = self._circuits.get(key, Circuit())
        self._circuits[key] = before.failed(self._clock.now(), self._entropy.fraction())
