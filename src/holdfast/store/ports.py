"""The ports that all components of one process share: the database, clock, entropy, tasks and notifier.

The simulator builds the same components with its own ports.
"""

from dataclasses import dataclass

from holdfast.kernel.ids import make_id
from holdfast.kernel.notifier import Notifier
from holdfast.kernel.ports import Clock, Entropy, Tasks
from holdfast.store.database import Database

ID_BITS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    db: Database
    secret: bytes  # of the store; keys the hashes that identify pruned messages
    clock: Clock
    entropy: Entropy
    tasks: Tasks
    notifier: Notifier

    def new_id(self, prefix: str) -> str:
        return make_id(prefix, self.clock.now(), self.entropy.bits(ID_BITS))
