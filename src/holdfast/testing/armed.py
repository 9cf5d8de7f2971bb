"""A fault plan in use: it counts calls, statements and messages, and returns the fault that is due, if any.

It only decides and counts. The world acts: it kills the node, delays the answer, sends the message again.
"""

from collections import Counter
from functools import cache
from typing import TypeVar

from holdfast.testing.crash import CrashPoint, Side
from holdfast.testing.faults import (
    CrashAtStatement,
    CrashAtVerb,
    Fault,
    FaultPlan,
    ModelFault,
    PauseAtVerb,
    PlatformFault,
    ProviderFault,
    VerbFails,
)

F = TypeVar("F", bound=Fault)

# Statements of polling loops and of reads. There are thousands, so crashes at them would crowd out all others.
DULL = frozenset(
    {
        *("renew_node", "reap_nodes", "changed", "read_upcoming", "claim_mailbox"),
        *("next_due", "list_lane_keys", "next_overdue", "list_open_agents", "claim_finalisation"),
        *("find_newest_forgetting", "list_open_forgettings", "next_reply_due"),
        *(
            "read_mail",
            "read_context",
            "read_excerpt",
            "read_memory",
        ),  # an interrupted read leaves no trace
    }
)


class Armed:
    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        self.fired: list[Fault] = []
        self.healed = False
        self.before_healing: Counter[CrashPoint | str] = Counter()
        self.seen: Counter[CrashPoint | str] = Counter()  # how often each point was passed
        self._verbs: dict[tuple[CrashPoint, int], CrashAtVerb | VerbFails | PauseAtVerb] = {
            (fault.point, fault.occurrence): fault
            for faults in (plan.of(PauseAtVerb), plan.of(VerbFails), plan.of(CrashAtVerb))
            for fault in faults
        }
        self._statements = {fault.occurrence: fault for fault in plan.of(CrashAtStatement)}
        self._model = {fault.occurrence: fault for fault in plan.of(ModelFault)}
        self._provider = {fault.occurrence: fault for fault in plan.of(ProviderFault)}
        self._platform = {fault.message: fault for fault in plan.of(PlatformFault)}

    def heal(self) -> None:
        """Stop all faults; from now on the runtime has to come to rest."""
        self.healed = True
        self.before_healing = self.seen.copy()

    def at_verb(self, verb: str, side: Side) -> CrashAtVerb | VerbFails | PauseAtVerb | None:
        point = _point(verb, side)
        passed = self.seen[point] = self.seen[point] + 1
        fault = self._verbs.get((point, passed))
        if fault is None or self.healed:
            return None
        self.fired.append(fault)
        return fault

    def crash_soon(self, statements: int, down_ms: int) -> None:
        """Kill the node that sends the statement after the next `statements` ones."""
        occurrence = self.seen["statement"] + statements
        self._statements[occurrence] = CrashAtStatement(occurrence, down_ms)

    def at_statement(self) -> CrashAtStatement | None:
        return self._at("statement", self._statements)

    def at_model_call(self) -> ModelFault | None:
        return self._at("model", self._model)

    def at_provider_call(self) -> ProviderFault | None:
        return self._at("provider", self._provider)

    def at_message(self, n: int) -> PlatformFault | None:
        return self._fire(self._platform.get(n))

    def _at(self, point: str, faults: dict[int, F]) -> F | None:
        passed = self.seen[point] = self.seen[point] + 1
        return self._fire(faults.get(passed))

    def _fire(self, fault: F | None) -> F | None:
        if fault is None or self.healed:
            return None
        self.fired.append(fault)
        return fault


@cache
def _point(verb: str, side: Side) -> CrashPoint:
    return CrashPoint(verb, side)
