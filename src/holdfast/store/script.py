"""A store verb is a script: a generator that yields statements and is sent their rows.

Rule 1: a verb is written once, in a module `*_sql.py` of its subject, and run by every engine. SQLite runs it on
        the writer thread inside a savepoint of a group commit; PostgreSQL runs it inside a transaction of its own.
Rule 2: one script is one transaction. A script that raises leaves no trace.
Rule 3: a script may be run again from the start (a lost race, a deadlock), so it holds no state and asks
        for nothing but rows.

The SQL is the common subset of both engines:
- parameters are named, `:name`; `:now` is bound by the engine (the store judges time by its own clock);
- `/*lock*/` at the end of a select locks its rows until commit (`for update` on PostgreSQL; SQLite holds
  the write lock already); `/*share*/` does so for several at once, against `/*lock*/` and changes only;
  `/*skip locked*/` locks them or passes over them;
- bodies are bytes, times and booleans are integers;
- rows come back as tuples, in the order of the select list.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = dict[str, Any]  # made for one statement; the engine may add to it
R = TypeVar("R")


class Query(NamedTuple):
    """One statement; answered with its rows (an empty list when it returns none)."""

    sql: str
    params: Params


class Many(NamedTuple):
    """One statement over many parameter rows; answered with an empty list."""

    sql: str
    rows: Sequence[Params]


Statement: TypeAlias = Query | Many
Script: TypeAlias = Generator[Statement, list[Row], R]


def rows(sql: str, **params: Any) -> Script[list[Row]]:  # noqa: ANN401
    """Yield one statement and return all its rows: `found = yield from rows("select ...", id=x)`."""
    return (yield Query(sql, params))


def one(sql: str, **params: Any) -> Script[Row | None]:  # noqa: ANN401
    """Yield one statement and return its first row, if any."""
    found = yield Query(sql, params)
    return found[0] if found else None


def run(sql: str, **params: Any) -> Script[None]:  # noqa: ANN401
    """Yield one statement for its effect."""
    yield Query(sql, params)


def many(sql: str, batch: Sequence[Params]) -> Script[None]:
    """Yield one statement over many parameter rows; nothing is sent for an empty batch."""
    if batch:
        yield Many(sql, batch)


def plain(text: str | None) -> str | None:
    """A text of unknown origin for a text column; PostgreSQL keeps no NUL in one."""
    return None if text is None else text.replace("\0", "")
