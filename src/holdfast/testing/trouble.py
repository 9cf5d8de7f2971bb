"""The faults of a world's nodes: nodes are killed, paused and stopped, and verbs fail or kill their node.

The plan decides (`Armed`); this class acts on the node that makes the call, and records each act for the digest.
"""

from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass

from holdfast.kernel.errors import HoldfastError, StoreUnavailable
from holdfast.memory.cursor_sql import OVERDUE
from holdfast.runtime.runtime import Runtime
from holdfast.testing.armed import DULL, Armed
from holdfast.testing.crash import Side, die
from holdfast.testing.evidence import HistoryTally
from holdfast.testing.faults import Kill, Pause, PauseAtVerb, Stop, VerbFails
from holdfast.testing.node import NODE, SimNode
from holdfast.testing.simloop import SimLoop


@dataclass(slots=True)
class Slot:
    """The position of one node; after its death another node takes the position."""

    node: SimNode | None = None
    runtime: Runtime | None = None
    incarnation: int = 0
    down_ms: int = 0
    restarts: bool = True


class Trouble:
    armed: Armed
    loop: SimLoop
    slots: list[Slot]
    tally: HistoryTally
    _dull: Counter[str]
    _dull_max: int
    _last_verb: str
    _outside: Context
    _told: Callable[[str], None] | None

    def _strike(self, fault: Kill | Pause | Stop) -> None:
        if self.armed.healed:
            return
        slot = self.slots[fault.node]
        node = slot.node
        if node is None or not node.alive or (isinstance(fault, Pause | Stop) and node.paused):
            return
        self.armed.fired.append(fault)
        self._note(type(fault).__name__.lower(), node.name)
        if isinstance(fault, Kill):
            self.tally.kills += 1
            slot.down_ms = fault.down_ms
            node.kill()
        elif isinstance(fault, Pause):
            self.tally.pauses += 1
            node.pause()
            self.loop.call_later(fault.length_ms / 1000, node.thaw, context=self._outside)
        elif slot.runtime is not None:
            self.tally.stops += 1
            slot.down_ms = fault.down_ms
            runtime, slot.runtime = slot.runtime, None  # it accepts no more calls
            node.start(self._shut_down(node, runtime), name="shut down")

    async def _shut_down(self, node: SimNode, runtime: Runtime) -> None:
        try:
            await runtime.close()
        except HoldfastError as error:
            self.loop.note("stopped badly", str(error))
        node.kill()

    def _reach(self, verb: str, side: Side) -> None:
        fault = self.armed.at_verb(verb, side)
        if isinstance(fault, VerbFails):
            self.tally.crashes["failed verb"] += 1
            self._note("fails", f"{side} {verb}")
            raise StoreUnavailable(f"told to fail {side} {verb}")
        if isinstance(fault, PauseAtVerb):
            self._nap(f"{side} {verb}", fault.length_ms)
        elif fault is not None:
            self._die(f"{side} {verb}", "verb", fault.down_ms)

    def _nap(self, what: str, length_ms: int) -> None:
        node = NODE.get()
        if node is not None and not node.paused:
            self.tally.pauses += 1
            self._note("sleeps", what, node.name)
            node.pause()
            self.loop.call_later(length_ms / 1000, node.thaw, context=self._outside)

    def _before_statement(self, verb: str, sql: str) -> None:
        if verb != "batch":
            self._last_verb = verb
        if self._last_verb in DULL or sql == OVERDUE:
            self._dull[sql] += 1
            if self._dull[sql] > self._dull_max:
                return
        fault = self.armed.at_statement()
        if fault is not None:
            kind = sql if verb == "batch" else "statement"
            self._die(f"{kind} of {self._last_verb}", kind, fault.down_ms)

    def _die(self, what: str, kind: str, down_ms: int) -> None:
        node = NODE.get()
        assert node is not None, "only nodes use wrapped ports"
        self.tally.crashes[kind] += 1
        self._note("crash", what, node.name)
        next(slot for slot in self.slots if slot.node is node).down_ms = down_ms
        die(what)

    def _note(self, *facts: str) -> None:
        self.loop.note(*facts)
        if self._told is not None:
            self._told(f"{self.loop.time():8.3f} FAULT {' '.join(facts)}")
