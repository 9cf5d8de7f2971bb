"""The circuit breaker of recall: a provider that hangs costs a few turns their budget, and then no turn anything.

While the circuit of a provider is open, turns leave it out and say so. Now and then one turn's question is sent to it
as a probe, beside the turn, which does not wait for it; an answer within a turn's budget closes the circuit. The
circuits live in RAM, one for each provider of each agent, and everything that recalls shares them.
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
        """Why the provider is left out; None when it is asked."""
        circuit = self._circuits.get(key)
        if circuit is None or not circuit.is_open:
            return None
        return f"{key.provider} was not asked: it did not answer {circuit.failures} times in a row"

    def begin_probe(self, key: LaneKey) -> bool:
        """Whether it is time to find out; true once, until the probe has ended."""
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
        """It failed, or did not answer within the budget."""
        before = self._circuits.get(key, Circuit())
        self._circuits[key] = before.failed(self._clock.now(), self._entropy.fraction())
