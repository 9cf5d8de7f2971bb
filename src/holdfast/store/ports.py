"""The database as its callers see it, and the ports that all components of one process share.

Rule 1: a database runs scripts, each as one transaction, and nothing else. The script is passed as a `Call`, which can
        create it again: an engine may run it again from the start.
Rule 2: `write` returns only when the script's effects are durable; `read` sees one snapshot.
Rule 3: a caller that stops waiting (a cancelled task) does not learn the outcome: the script may still
        commit. Verbs are idempotent, so the caller repeats them.

The simulator builds the same components with its own ports.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from holdfast.kernel.notifier import Notifier
from holdfast.kernel.ports import Clock, Entropy, Tasks, new_id
from holdfast.store.script import Call, R


class Database(Protocol):
    async def write(self, call: Call[R]) -> R:
        """Run the script in one transaction and return its value once the transaction is durable."""

    async def read(self, call: Call[R]) -> R:
        """Run a read-only script over one snapshot that includes every write acknowledged before."""

    async def changed(self) -> bool:
        """Whether another process may have written since the last call.

        The result may be a false True, never a false False.
        """

    async def scrub(self) -> str:
        """Remove every byte of blanked content from this engine's files; returns a one-sentence receipt.

        Raises `StoreUnavailable` if it cannot run now; the caller repeats it later.
        """

    def wal_bytes(self) -> int:
        """The size of the write-ahead log; 0 if the engine does not expose it."""

    async def close(self) -> None:
        """Finish queued calls, refuse later ones, and return within a bounded time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    db: Database
    secret: bytes  # of the store; keys the hashes that identify pruned messages
    clock: Clock
    entropy: Entropy
    tasks: Tasks
    notifier: Notifier
    new_id: Callable[[str], str] = field(init=False)  # called with a prefix

    def __post_init__(self) -> None:
        object.__setattr__(self, "new_id", partial(new_id, self.clock, self.entropy))
