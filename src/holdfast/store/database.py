"""The interface of an engine: it runs scripts, each as one transaction, and nothing else.

Rule 1: the script is passed as a `Call`, which can create it again: an engine may run it again from the start.
Rule 2: `write` returns only when the script's effects are durable; `read` sees one snapshot.
Rule 3: a caller that stops waiting (a cancelled task) does not learn the outcome: the script may still
        commit. Verbs are idempotent, so the caller repeats them.
"""

from typing import Protocol

from holdfast.store.script import Call, R


class Database(Protocol):
    async def write(self, call: Call[R]) -> R:
        """Run the script in one transaction and return its value once the transaction is durable."""
        ...

    async def read(self, call: Call[R]) -> R:
        """Run a read-only script over one snapshot that includes every write acknowledged before."""
        ...

    async def changed(self) -> bool:
        """Whether another process may have written since the last call.

        The result may be a false True, never a false False.
        """
        ...

    async def scrub(self) -> str:
        """Remove every byte of blanked content from this engine's files; returns a one-sentence receipt.

        Raises `StoreUnavailable` if it cannot run now; the caller repeats it later.
        """
        ...

    def wal_bytes(self) -> int:
        """The size of the write-ahead log; 0 if the engine does not expose it."""
        ...

    async def close(self) -> None:
        """Finish queued calls, refuse later ones, and return within a bounded time."""
        ...
