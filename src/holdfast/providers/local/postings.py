"""Postings: for each scope and stem, the numbers of the lines that have both.

Rule 1: a list is kept in blocks of a fixed size. New lines go into the last one, so writing costs the same for a
        long list as for a short one, and a query reads the newest lines of a long list alone.
Rule 2: the length of a list follows from the number of its last block, and is an upper bound after lines were deleted.
Rule 3: a token holds a hash of the stem, not the stem. Two stems with one hash cost a query some reads; ranking
        compares the stems themselves.
"""

import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import apsw

BLOCK_IDS = 240  # a block fits into a quarter of a page, so it needs no page of its own
ID_BYTES = 4
BLOCK_BYTES = BLOCK_IDS * ID_BYTES
STEM_BITS = 32

_LAST = """
select wanted.value, posting.block, posting.ids from json_each(?) as wanted
cross join posting on posting.token = wanted.value
  and posting.block = (select max(block) from posting where token = wanted.value)
"""
_ALL = """
select posting.token, posting.block, posting.ids from json_each(?) as wanted
cross join posting on posting.token = wanted.value
"""
_EARLIER = """
select posting.ids from posting where token = ? and block < ? order by block desc limit ?
"""


class LastBlock(NamedTuple):
    block: int
    ids: bytes

    @property
    def length(self) -> int:
        """The length of the whole list."""
        return self.block * BLOCK_IDS + len(self.ids) // ID_BYTES


@lru_cache(maxsize=50_000)
def stem_hash(stem: str) -> int:
    return int.from_bytes(blake2b(stem.encode(), digest_size=STEM_BITS // 8).digest(), "big")


def token(scope: int, hashed: int) -> int:
    """The key of a list. The lists of one scope are neighbours in the file."""
    return scope << STEM_BITS | hashed


def last_blocks(db: apsw.Connection, tokens: Iterable[int]) -> dict[int, LastBlock]:
    """The last block of each list that exists."""
    return {key: LastBlock(block, ids) for key, block, ids in db.execute(_LAST, (json.dumps(list(tokens)),))}


def newest(db: apsw.Connection, key: int, last: LastBlock, most: int) -> list[int]:
    """At most `most` lines of a list, those written last."""
    found = list(lines_of(last.ids))[-most:]
    if last.block and len(found) < most:
        blocks = -(-(most - len(found)) // BLOCK_IDS)
        for (ids,) in db.execute(_EARLIER, (key, last.block, blocks)):
            found += lines_of(ids)
    return found[:most]


def append(db: apsw.Connection, lists: Mapping[int, Sequence[int]]) -> None:
    """Add lines to lists."""
    last = {key: (block, ids) for key, block, ids in db.execute(_LAST, (json.dumps(list(lists)),))}
    rows: list[tuple[int, int, bytes]] = []
    for key in sorted(lists):
        block, ids = last.get(key, (0, b""))
        ids += struct.pack(f"<{len(lists[key])}I", *lists[key])
        rows += [
            (key, block + start // BLOCK_BYTES, ids[start : start + BLOCK_BYTES])
            for start in range(0, len(ids), BLOCK_BYTES)
        ]
    db.executemany("insert or replace into posting values (?, ?, ?)", rows)


def remove(db: apsw.Connection, lists: Mapping[int, Collection[int]]) -> None:
    """Delete lines from lists."""
    kept: list[tuple[bytes, int, int]] = []
    for key, block, ids in db.execute(_ALL, (json.dumps(sorted(lists)),)):
        gone = set(lists[key])
        left = [line for line in lines_of(ids) if line not in gone]
        if len(left) * ID_BYTES < len(ids):
            kept.append((struct.pack(f"<{len(left)}I", *left), key, block))
    db.executemany("update posting set ids = ? where token = ? and block = ?", kept)
    db.executemany(
        "delete from posting where token = ? and block = ?", [(key, block) for ids, key, block in kept if not ids]
    )


def lines_of(ids: bytes) -> tuple[int, ...]:
    """The lines of a block, in the order in which they were written."""
    return struct.unpack(f"<{len(ids) // ID_BYTES}I", ids)
