"""A store verb is a script: a generator that yields statements and is sent their rows.

Rule 1: a verb is written once, in a module `*_sql.py` of its subject, and run by every engine. SQLite runs it on
        the writer thread inside a savepoint of a group commit; PostgreSQL runs it in its own transaction.
Rule 2: one script is one transaction. A script that raises changes nothing.
Rule 3: a script may run again from the start (a lost race, a deadlock), so it holds no state and its only
        input is rows.

The SQL is the common subset of both engines:
- parameters are named, `:name`; the engine binds `:now` (the store uses its own clock);
- `/*lock*/` at the end of a select locks its rows until commit (`for update` on PostgreSQL; SQLite already holds
  the write lock); `/*share*/` takes a shared lock, which conflicts with `/*lock*/` and with changes;
  `/*skip locked*/` locks free rows and skips locked ones;
- bodies are bytes, times and booleans are integers;
- rows come back as tuples, in the order of the select list; `Columns` makes values of rows with many columns.

A caller runs a verb as `await db.write(open_turn(claim, opening))`. Verbs compose: inside another script,
`yield from open_turn(claim, opening)` makes both one transaction.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import MISSING, Field, dataclass
from enum import Enum
from functools import partial, update_wrapper
from types import UnionType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = dict[str, Any]  # used for one statement; the engine may add to it
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
V = TypeVar("V")
Converter: TypeAlias = Callable[[Any], Any]


class Query(NamedTuple):
    """One statement; its result is a list of rows, empty if the statement returns none."""

    sql: str
    params: Params


class Change(Query):
    """One statement whose rows the script ignores; an engine need not wait for it before the next one."""


class Many(NamedTuple):
    """One statement over many parameter rows; its result is an empty list."""

    sql: str
    rows: Sequence[Params]


class Group(NamedTuple):
    """Queries that do not depend on each other's rows; the result is a list of the rows of each."""

    queries: tuple[Query, ...]


Statement: TypeAlias = Query | Many | Group
Script: TypeAlias = Generator[Statement, list[Row], R]


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """A script ready to run: the name of its verb, and a factory, because the script may have to run again.

    Calls with the same `lock` run one after another, even if the caller of an earlier one stopped waiting.
    """

    verb: str
    script: Callable[[], Script[R_co]]
    lock: str = ""

    def __iter__(self) -> Script[R_co]:
        return self.script()


class Verb(Generic[P, R]):
    """A named script of the store. Calling it makes a `Call`; the simulator's mutants replace `script`."""

    def __init__(self, script: Callable[P, Script[R]], lock: Callable[..., str] | None = None) -> None:
        self.script = script
        self.name = script.__name__
        self.lock = lock
        update_wrapper(self, script)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        lock = "" if self.lock is None else self.lock(*args, **kwargs)
        return Call(self.name, partial(self.script, *args, **kwargs), lock)


verb = Verb  # `@verb` makes a script a verb


def locked_verb(lock: Callable[..., str]) -> Callable[[Callable[P, Script[R]]], Verb[P, R]]:
    """Make a script a verb whose calls have the lock that is made from their arguments."""
    return partial(Verb, lock=lock)


def claim_name(*_: object, name: str = "", **__: object) -> str:
    """The lock of a claiming verb: a repeated claim must see the rows that it claimed before."""
    return name


def rows(sql: str, **params: Any) -> Script[list[Row]]:  # noqa: ANN401
    """Yield one statement and return all its rows: `found = yield from rows("select ...", id=x)`."""
    return (yield Query(sql, params))


def one(sql: str, **params: Any) -> Script[Row | None]:  # noqa: ANN401
    """Yield one statement and return its first row, if any."""
    found = yield Query(sql, params)
    return found[0] if found else None


def run(sql: str, **params: Any) -> Script[None]:  # noqa: ANN401
    """Yield one statement and ignore its rows."""
    yield Change(sql, params)


def many(sql: str, batch: Sequence[Params]) -> Script[None]:
    """Yield one statement over many parameter rows; an empty batch yields nothing."""
    if batch:
        yield Many(sql, batch)


def together(*queries: Query) -> Script[list[list[Row]]]:
    """Yield queries at once and return the rows of each: one round trip instead of one for each query."""
    return (yield Group(queries)) if queries else []  # type: ignore[return-value]  # a list of rows for each query


def plain(text: str | None) -> str | None:
    """Make a text of unknown origin safe for a text column; PostgreSQL accepts no NUL."""
    return None if text is None else text.replace("\0", "")


def utf8(raw: bytes) -> str:
    """Decode the text of a bytes column."""
    return bytes(raw).decode()


class Columns(Generic[V]):
    """A select list made from the fields of a value, which turns each row into that value.

    `SUMMARY = Columns(Summary, text=("body", utf8))` is used as `f"select {SUMMARY} from summary"` and read with
    `SUMMARY.rows(...)`, `SUMMARY.one(...)` or `SUMMARY.value(row)`: list and value cannot get out of order.

    `value` is a dataclass or a NamedTuple. A field is the column of its name, of `table` if one is given; a keyword
    gives another expression, or an expression and a converter. Fields in `without` have no column: they keep their
    default, or are passed to `value`. Enum, bool and bytes fields are converted. NULL is the field's default, or None.
    """

    def __init__(
        self, value: type[V], table: str = "", *, without: Iterable[str] = (), **given: str | tuple[str, Converter]
    ) -> None:
        kinds: dict[str, object] = {name: kind for name, kind in value.__annotations__.items() if name not in without}
        prefix = f"{table}." if table else ""
        columns = {name: given.pop(name, f"{prefix}{name}") for name in kinds}
        if given:
            raise TypeError(f"{value.__name__} has no fields {', '.join(given)}")
        pairs = {name: (one, _converter(kinds[name])) if isinstance(one, str) else one for name, one in columns.items()}
        self.names = tuple(pairs)
        self._list = ", ".join(column for column, _ in pairs.values())
        read = [(place, convert, _default(value, name)) for place, (name, (_, convert)) in enumerate(pairs.items())]
        self._changed = [one for one in read if one[1:] != (None, None)]
        self._make: Callable[..., V] = value
        self._is_tuple = issubclass(value, tuple)

    def __str__(self) -> str:
        return self._list

    def value(self, row: Row, **rest: object) -> V:
        """The value of a row; `rest` are fields without a column."""
        if self._changed:
            read = list(row)
            for place, convert, default in self._changed:
                found = read[place]
                if found is None:
                    read[place] = default
                elif convert is not None:
                    read[place] = convert(found)
            row = tuple(read)
        if self._is_tuple and not rest:
            return self._make(*row)
        return self._make(**dict(zip(self.names, row, strict=True)), **rest)

    def rows(self, sql: str, **params: Any) -> Script[list[V]]:  # noqa: ANN401
        """Yield one statement and return all its rows as values."""
        found = yield Query(sql, params)
        return [self.value(row) for row in found]

    def one(self, sql: str, **params: Any) -> Script[V | None]:  # noqa: ANN401
        """Yield one statement and return its first row as a value, if any."""
        found = yield Query(sql, params)
        return self.value(found[0]) if found else None


def _converter(kind: object) -> Converter | None:
    """The converter of a field: its Enum, bool or bytes class; None if the column already has the right type."""
    for one_ in kind.__args__ if isinstance(kind, UnionType) else (kind,):
        if isinstance(one_, type) and (one_ in (bool, bytes) or issubclass(one_, Enum)):
            return one_
    return None


def _default(value: type, name: str) -> object:
    fields: dict[str, Field[object]] = getattr(value, "__dataclass_fields__", {})
    if name not in fields:
        return getattr(value, "_field_defaults", {}).get(name)
    return None if fields[name].default is MISSING else fields[name].default
