"""Placeholder until the memory verbs land: their author replaces this file."""

from holdfast.core.delivery import MemoryNote
from holdfast.stores.script import Script


def memory_notes(stream: str, from_seq: int, through_seq: int) -> Script[list[MemoryNote]]:
    del stream, from_seq, through_seq
    yield from ()
    return []
