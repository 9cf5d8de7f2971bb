"""Postings: for each scope and stem, the numbers of the lines that have both. A scope is a set of lines that are
visible together. A query reads the postings of the asker's scopes, so its cost depends on the lines that the asker may
see, not on all lines with the same word.

Rule 1: a list is kept in blocks of a fixed size. New lines go into the last one, so writing costs the same for a
        long list as for a short one, and a query reads the newest lines of a long list alone.
Rule 2: the length of a list follows from the number of its last block, and is an upper bound after lines were deleted.
Rule 3: a token holds a hash of the stem, not the stem. Two stems with one hash cost a query some reads; ranking
        compares the stems themselves.
Rule 4: scopes only save work. `_VISIBLE` of search.py decides whether a line may be shown.
Rule 5: every line that `_VISIBLE` allows is in one of the query's scopes, else it would not be found.
Rule 6: a scope is made of the line's own columns, which are never rewritten. The asker's linked accounts are looked up
        with each query.

A note is in the scope of its owner; a turn in those of its person and, in a group or with an agent as speaker, of its
chat. All lines of a chat that is no group, or of a session, are found through the scopes that hold them: `scope_part`
lists these. They may hold other lines as well, so a query checks them (search.py).
"""

import json
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import apsw

from holdfast.memory.visibility import is_agent

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
    last = last_blocks(db, lists)
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


# --- scopes -----------------------------------------------------------------------------------------

_FIND = "select id, lines from scope where agent = ? and kind = ? and name = ?"
_COUNT = """
insert into scope (agent, kind, name, lines) values (?, ?, ?, ?)
on conflict (agent, kind, name) do update set lines = lines + excluded.lines
"""


class IndexScope(NamedTuple):
    agent: str
    kind: str
    name: str = ""


class LineScopes(NamedTuple):
    """The scopes of one line."""

    own: tuple[IndexScope, ...]  # with postings
    wholes: tuple[IndexScope, ...]  # without: all lines of its session, and of its chat if that is no group
    part: IndexScope | None  # the one of `own` that stands for the line in `wholes`


@lru_cache(maxsize=4_096)
def line_scopes(kind: str, agent: str, session: str, address: str, principal: str, *, in_group: bool) -> LineScopes:
    """The scopes of one line. The `principal` of a note is its owner's scope (memory/visibility.py)."""
    if kind == "note":
        return LineScopes((IndexScope(agent, "note", principal),), (), None)
    person, chat = IndexScope(agent, "person", principal), IndexScope(agent, "chat", address)
    whole_session, whole_chat = IndexScope(agent, "in session", session), IndexScope(agent, "in chat", address)
    if in_group:
        return LineScopes((chat,) if is_agent(principal) else (chat, person), (whole_session,), chat)
    if not is_agent(principal):
        return LineScopes((person,), (whole_session, whole_chat) if address else (whole_session,), person)
    own = chat if address else IndexScope(agent, "session", session)
    return LineScopes((own,), (whole_session,), own)


def count_lines(db: apsw.Connection, lines: Collection[LineScopes]) -> dict[IndexScope, int]:
    """Register new lines with their scopes; the number of each scope."""
    counts = Counter(name for one in lines for name in (*one.own, *one.wholes))
    parts = {(whole, one.part) for one in lines if one.part is not None for whole in one.wholes}
    db.executemany(_COUNT, [(*name, count) for name, count in counts.items()])
    numbers = numbers_of(db, counts)
    pairs = [(numbers[whole], numbers[part]) for whole, part in parts]
    db.executemany("insert or ignore into scope_part values (?, ?)", pairs)
    return numbers


def discount_lines(db: apsw.Connection, lines: Iterable[LineScopes]) -> None:
    """Unregister deleted lines. A scope without lines leaves nothing."""
    counts = Counter(name for one in lines for name in (*one.own, *one.wholes))
    db.executemany(_COUNT, [(*name, -count) for name, count in counts.items()])
    empty = [(found[0],) for name in counts for found in db.execute(_FIND, name) if found[1] <= 0]
    for where in ("scope where id", "scope_part where whole", "scope_part where part"):
        db.executemany(f"delete from {where} = ?", empty)  # noqa: S608 - our own constants


def numbers_of(db: apsw.Connection, names: Iterable[IndexScope]) -> dict[IndexScope, int]:
    """The number of each scope that exists."""
    return {name: found[0] for name in names for found in db.execute(_FIND, name)}
