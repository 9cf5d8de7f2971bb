"""Scopes: sets of lines that are visible together. Each has postings of its own (postings.py).

A query reads the postings of the asker's scopes, so its cost depends on the lines that the asker may see, not on all
lines with the same word.

Rule 1: scopes only save work. `_VISIBLE` of search.py decides whether a line may be shown.
Rule 2: every line that `_VISIBLE` allows is in one of the query's scopes, else it would not be found.
Rule 3: a scope is made of the line's own columns, which are never rewritten. The asker's linked accounts are looked up
        with each query.

A note is in the scope of its owner; a turn in those of its person and, in a group or with an agent as speaker, of its
chat. All lines of a chat that is no group, or of a session, are found through the scopes that hold them: `scope_part`
lists these. They may hold other lines as well, so a query checks them (`AskedScopes.partial`).
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

import apsw

from holdfast.memory.recall import RecallQuery
from holdfast.memory.visibility import is_agent

_FIND = "select id, lines from scope where agent = ? and kind = ? and name = ?"
_ALL = "select id, lines from scope where agent = ? and kind in ('person', 'chat', 'session', 'note')"
_PARTS = """
select distinct scope.id, scope.lines from scope_part cross join scope on scope.id = scope_part.part
where scope_part.whole in (select value from json_each(?))
"""
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


class NamedScopes(NamedTuple):
    """The scopes that a query sees in full, sees in part, and finds through their parts."""

    full: list[IndexScope]
    partial: list[IndexScope]
    wholes: list[IndexScope]


class AskedScopes(NamedTuple):
    """The scopes of a query."""

    full: tuple[int, ...]  # every line is visible
    partial: tuple[int, ...]  # some lines may not be visible
    total: int  # approximate number of lines


@lru_cache(maxsize=4_096)
def line_scopes(*, kind: str, agent: str, session: str, address: str, in_group: bool, principal: str) -> LineScopes:
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


def asked_scopes(db: apsw.Connection, query: RecallQuery) -> AskedScopes:
    """The scopes whose lines a query may see, without those that have no line."""
    if query.audience.sees_all:
        return all_scopes(db, query.agent)
    named = named_scopes(query)
    wholes = [scope for scope, _ in _existing(db, named.wholes)]
    parts = dict(db.execute(_PARTS, (json.dumps(wholes),))) if wholes else {}
    full = dict(_existing(db, named.full))
    some = {scope: lines for scope, lines in (*_existing(db, named.partial), *parts.items()) if scope not in full}
    return AskedScopes(tuple(full), tuple(some), sum(full.values()) + sum(some.values()))


def all_scopes(db: apsw.Connection, agent: str) -> AskedScopes:
    """Every scope of an agent with postings; their number grows with the people who share its memory."""
    found = dict(db.execute(_ALL, (agent,)))
    return AskedScopes(tuple(found), (), sum(found.values()))


def named_scopes(query: RecallQuery) -> NamedScopes:
    """The scopes of a query by name."""
    agent, session, address = query.agent, query.key.session, query.naming.address
    full = [IndexScope(agent, "note", scope) for scope in query.audience.scopes]
    full += [IndexScope(agent, "session", session), *([IndexScope(agent, "chat", address)] if address else [])]
    here = [IndexScope(agent, "in session", session), *([IndexScope(agent, "in chat", address)] if address else [])]
    people = [IndexScope(agent, "person", asker) for asker in query.askers]
    if not query.group:
        return NamedScopes([*full, *people], [], here)
    return NamedScopes(full, people if query.private_in_groups else [], here)


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


def _existing(db: apsw.Connection, names: Iterable[IndexScope]) -> list[tuple[int, int]]:
    """Number and lines of each scope that exists."""
    return [found for name in names for found in db.execute(_FIND, name)]
