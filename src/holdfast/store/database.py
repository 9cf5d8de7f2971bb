"""The contract of an engine: it runs scripts, each as one transaction, and nothing else.

Rule 1: the script is given as a `Call`, which can make it anew: an engine may run it again from the start.
Rule 2: `write` answers only when the script's effects are durable; `read` sees one snapshot.
Rule 3: a caller that stops waiting (a cancelled task) learns nothing about the outcome: the script may
        still commit. Verbs are idempotent, so it asks again.
"""

from typing import Protocol

from holdfast.store.script import Call, R


class Database(Protocol):
    async def write(self, call: Call[R]) -> R:
        """Run the script in one transaction and return its value once that is durable."""
        ...

    async def read(self, call: Call[R]) -> R:
        """Run a script that changes nothing, over one snapshot that holds every write answered before."""
        ...

    async def changed(self) -> bool:
        """Whether another process may have written since this was last asked.

        It may say True once too often, never once too seldom.
        """
        ...

    async def scrub(self) -> str:
        """Leave no byte of what was blanked in the files that this engine looks after; a receipt in one sentence.

        Raises `StoreUnavailable` when it is not the time; then it is repeated later.
        """
        ...

    def wal_bytes(self) -> int:
        """Size of the write-ahead log beside the database; 0 where the engine shows none."""
        ...

    async def close(self) -> None:
        """Finish what was asked, refuse what comes later, and return within a bounded time."""
        ...
