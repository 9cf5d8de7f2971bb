"""Whoever shows an agent's memory elsewhere (its files) reads it, and writes people's edits back, through this port."""

from typing import Protocol

from holdfast.kernel.ids import AgentName
from holdfast.memory.notes import Memory, MemoryBatch, MemoryOutcome


class MemoryKeeper(Protocol):
    async def memory(self, agent: AgentName, subject: str) -> Memory:
        """The notes that hold now, every write answered before included."""
        ...

    async def apply(self, batch: MemoryBatch) -> MemoryOutcome:
        """Make a batch durable; the keeper adds whom it is mirrored to."""
        ...
