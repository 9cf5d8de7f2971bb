"""Two scripts on two PostgreSQL connections, statement by statement, in every order that can make a difference.

Rule 1: a statement that waits for a lock is seen by asking the server who blocks it; the other script goes on.
Rule 2: what came of an order (both results and every row of every table) must be what one script after the other gives.
Rule 3: a script that lost a race (a unique key) is run again from the start, as the engine does. A deadlock is a fault.

Which orders: both scripts are READ COMMITTED, so neither sees what the other has not committed. Let X be the one that
commits first. X sees nothing of Y; each statement of Y sees either nothing of X or all of it, depending on whether it
ran before X's COMMIT. So an order is described by X and by how many statements Y had run by then: for each of both
scripts as Y and each k, Y runs k statements, then X runs to its end, then Y goes on. Where locks forbid an order, X
waits for Y and the harness finds out what happens instead.

Of these orders, k and k - 1 have the same outcome if the k-th statement of Y touches no table that X writes, and writes
or locks none that X locks: what it reads is the same before X and after X, neither waits for the other there, and X
does not see what it writes. (No table refers to another one by a foreign key, and only the audit trail has triggers, on
itself.) Then k is left out. The first k statements of Y are those that it runs when it is first, and so are the
statements of X. The orders with k = 0 are the serial ones, whose outcomes are known by then.

Where X comes to wait for Y, it waits until Y has committed. Y holds more locks the more statements it has run: with a
larger k it waits at the same statement or at an earlier one. If it is the same one for a smaller and for a larger k, it
is for every k between them as well, and their outcomes are that of the smaller one: X has read nothing of Y so far, and
Y goes on as if X did not exist, or both wait for each other (which would show with the smaller k). These are left out,
unless a script passes over what is locked (`skip locked`): what it reads depends on the locks of the other.

A statement can wait for the other script only if it writes or locks a table that the other one has
written or locked (see above). Only then the server is asked.

A site is a statement of one verb module. `without` takes its lock or its comparison away, for one run: the tests that
the locks have teeth expect Rule 2 to fail then.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from types import GeneratorType
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from holdfast.kernel.errors import HoldfastError
from holdfast.store.postgres.database import ONE_AFTER_ANOTHER, SETTINGS
from holdfast.store.postgres.dialect import translate
from holdfast.store.script import Group, Many, Query, Script

BLOCKED = "select cardinality(pg_blocking_pids($1)) > 0"
COPY = "holdfast_kept_"
COPIES = f"select tablename from pg_tables where schemaname = current_schema() and tablename like '{COPY}%'"
TABLES = "select tablename from pg_tables where schemaname = current_schema() and tablename not like 'holdfast%'"
NUMBERED = {
    "delivery": "n",
    "reply": "n",
    "forget_part": "n",
    "attempt": "n",
    "activity": "n",
}  # numbers that a lost race leaves gaps in
NUMBERS_OF = {"forget_part": "delivery"}
# The audit trail is in the order of commits, which verbs that share no row need not have in common with their effects.
IN_ORDER = {"action": ("n", "digest"), "action_head": ("digest",)}
RERUNS_MAX = 4
LOOK_AFTER_S = 0.003  # most statements have ended by then, and the server is not asked whether they wait
# A comma stands between tables as well as between columns, so a column that is named like a table counts as one.
NAMED = re.compile(r"(?:\b(?:from|join|update|into|using|only|table)|,)\s*(\w+)", re.IGNORECASE)
WRITTEN = re.compile(r"\b(?:insert\s+into|update|delete\s+from)\s+(?:only\s+)?(\w+)", re.IGNORECASE)
LOCKS = re.compile(r"/\*\s*(lock|share|skip locked)\s*\*/", re.IGNORECASE)
STATEMENTS_KEPT_MAX = 2_000  # prepared, by connection: more than all situations use together


@dataclass(frozen=True)
class Site:
    """A statement of a verb module, by the name of its constant."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Party:
    """One of the two: a fresh script each time, and the name it holds a lock under, if any."""

    script: Callable[[], Script[Any]]
    name: str = ""
    passed: str = ""  # its result when everything it looks for is locked: it may pass over that (`skip locked`)


@dataclass(frozen=True)
class Step:
    """What a step of a script does to tables; None stands for what is not known, such as a lock under a name."""

    touched: frozenset[str] | None
    written: frozenset[str] = frozenset()
    locked: frozenset[str] = frozenset()
    passes: bool = False  # over rows that are locked

    @property
    def claimed(self) -> frozenset[str]:
        """Tables in which it may have to wait for another script, and the other one for it."""
        return self.written | self.locked


@cache
def step_of(sql: str) -> Step:
    tables = frozenset(NAMED.findall(sql))
    found = {mark.lower() for mark in LOCKS.findall(sql)}
    written = tables & frozenset(WRITTEN.findall(sql))
    return Step(tables, written, tables if found else frozenset(), "skip locked" in found)


@dataclass
class Runner:
    """A script on a connection, moved on by whole statements."""

    connection: Any
    pid: int
    party: Party
    rewrite: Callable[[Site, str], str]
    other: "Runner | None" = None
    result: Any = None
    done: bool = False
    deadlocks: int = 0
    reruns: int = 0
    trace: list[Step] = field(default_factory=list)  # one for each step before COMMIT
    _script: Any = None
    _begun: bool = False
    _next: "Query | Many | Group | BaseException | None" = None  # what the script yielded and has no answer to
    _task: "asyncio.Task[bool] | None" = None
    _answer: Any = None
    _waiting: list[Query] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether it is inside a transaction."""
        return self._begun and not self.done

    async def step(self, watch: Any) -> bool:
        """Run one statement, or COMMIT at the end; False when it waits for the other script."""
        if self.done:
            return True
        if self._task is None and not self._may_wait():
            self.done = await self._advance()
            return True
        if self._task is None:
            self._task = asyncio.create_task(self._advance())
        while not (await asyncio.wait({self._task}, timeout=LOOK_AFTER_S))[0]:
            if await watch.fetchval(BLOCKED, self.pid):
                return False
        await self._finish_step()
        return True

    async def finish(self, watch: Any) -> bool:
        """Run on to the end; False when it waits for the other script."""
        while not self.done:
            if not await self.step(watch):
                return False
        return True

    async def _finish_step(self) -> None:
        assert self._task is not None
        task, self._task = self._task, None
        self.done = await task

    def _may_wait(self) -> bool:
        """Whether the next step meets the other script in a table where one waits for the other, or at a name."""
        if self.other is None or not self.other.is_open:
            return False
        if self.party.name and not self._begun:
            return True
        match self._waiting[0] if self._waiting else self._yielded():
            case Query(sql=sql) | Many(sql=sql) | Group(queries=(Query(sql=sql), *_)):
                claimed = step_of(sql).claimed
                return any(claimed & step.claimed for step in self.other.trace)
        return False

    def _yielded(self) -> "Query | Many | Group | BaseException":
        """The next statement of the script; or what ended the script."""
        if self._next is None:
            if self._script is None:
                self._script, self._answer, self._waiting = self.party.script(), None, []
            try:
                self._next = self._script.send(self._answer)
            except (StopIteration, HoldfastError, AssertionError, LookupError, TypeError, ValueError) as end:
                self._next = end
        assert self._next is not None
        return self._next

    async def _roll_back(self) -> None:
        await self.connection.execute("rollback")
        self._script, self._begun, self._next = None, False, None

    async def _advance(self) -> bool:
        try:
            return await self._one_statement()
        except (asyncpg.UniqueViolationError, asyncpg.DeadlockDetectedError) as error:
            self.deadlocks += isinstance(error, asyncpg.DeadlockDetectedError)
            await self._roll_back()
            self.reruns += 1
            if self.reruns > RERUNS_MAX:
                self.result = f"lost {self.reruns} races"
                return True
            return False
        except asyncpg.InterfaceError:  # also a `ValueError`: an argument that does not fit is no outcome
            raise
        except (HoldfastError, asyncpg.PostgresError, AssertionError, LookupError, TypeError, ValueError) as error:
            await self._roll_back()
            self.result = f"{type(error).__name__}"
            return True

    async def _one_statement(self) -> bool:
        if not self._begun:
            self._begun = True
            await self.connection.execute("begin")
            if self.party.name:
                await self.connection.execute(ONE_AFTER_ANOTHER, self.party.name)
                self.trace.append(Step(None))
                return False
        if self._waiting:
            self._answer.append(await self._run(self._waiting.pop(0)))
            return False
        statement, self._next = self._yielded(), None
        match statement:
            case StopIteration(value=value):
                await self.connection.execute("commit")
                self.result = repr(value)
                return True
            case BaseException():
                raise statement
            case Group(queries=queries):  # the server runs its queries one by one
                self._answer, self._waiting = [], list(queries)
                self._answer.append(await self._run(self._waiting.pop(0)))
            case _:
                self._answer = await self._run(statement)
        return False

    async def _run(self, statement: Query | Many) -> list[tuple[Any, ...]]:
        self.trace.append(step_of(statement.sql))
        written = statement.sql
        if self.rewrite is not as_written:
            written = self.rewrite(site_of(self._script, written), written)
        sql, names = translate(written)
        match statement:
            case Query(params=params):
                return [tuple(record) for record in await self.connection.fetch(sql, *[params[name] for name in names])]
            case Many(rows=batch):
                await self.connection.executemany(sql, [[params[name] for name in names] for params in batch])
        return []


def site_of(script: Any, sql: str) -> Site:
    """The innermost verb that yielded the statement, and what it calls it."""
    frames: list[Any] = []
    while isinstance(script, GeneratorType):
        frames.append(script.gi_frame)
        script = script.gi_yieldfrom
    for frame in reversed(frames):
        module = frame.f_globals["__name__"].rpartition(".")[2]
        for name, value in frame.f_globals.items():
            if value is sql:
                return Site(module, name)
    for module, loaded in sorted(sys.modules.items()):  # a query that another verb's module made
        if module.startswith("holdfast.") and module.endswith("_sql"):
            for name, value in vars(loaded).items():
                if value is sql:
                    return Site(module.rpartition(".")[2], name)
    return Site("", "")


def as_written(_site: Site, sql: str) -> str:
    return sql


def without(site: Site, found: str, instead: str = "") -> Callable[[Site, str], str]:
    """Take the lock or the comparison of one site away."""

    def rewrite(at: Site, sql: str) -> str:
        if at != site:
            return sql
        changed = re.sub(found, instead, sql, flags=re.DOTALL)
        if changed == sql:
            raise RuntimeError(f"{site} has nothing like {found}")
        return changed

    return rewrite


@dataclass
class Outcome:
    order: str
    results: tuple[Any, Any]
    rows: Mapping[str, list[str]]
    deadlocks: int = 0
    waited_at: int | None = None  # the statement of the one that commits first; None if it did not wait, or ran again

    def same(self, other: "Outcome") -> bool:
        return self.results == other.results and self.rows == other.rows


@dataclass
class Stage:
    """A schema with a state that every order begins from."""

    watch: Any
    connections: tuple[Any, Any]
    pids: tuple[int, int]
    tables: list[str] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)  # tables that may differ from what is kept

    async def keep(self) -> None:
        """Remember the present rows as the state to begin from."""
        self.tables = sorted(name for (name,) in await self.watch.fetch(TABLES))
        copies = {name.removeprefix(COPY) for (name,) in await self.watch.fetch(COPIES)}
        for name in set(self.tables) - copies:  # they stay for the next test
            await self.watch.execute(f"create unlogged table {COPY}{name} (like {name})")
        copy = f"delete from {COPY}{{0}}; insert into {COPY}{{0}} table {{0}};"
        await self.watch.execute(f"do $$ begin {''.join(map(copy.format, self.tables))} end $$")
        self.kept = await self._read()

    async def restore(self) -> None:
        names = sorted(self.changed)
        self.changed = set(self.tables)
        steps = [f"delete from {name}; insert into {name} select * from {COPY}{name};" for name in names]
        for name in ("delivery", "reply"):
            newest = f"(select coalesce(max(n), 0) from {name})"
            steps.append(f"perform setval(pg_get_serial_sequence('{name}', 'n'), 1 + {newest}, false);")
        freely = "set local session_replication_role = replica;"  # the audit trail is append-only
        await self.watch.execute(f"do $$ begin {freely} {' '.join(steps)} end $$")

    async def rows(self) -> dict[str, list[str]]:
        found = await self._read()
        self.changed = {name for name in self.tables if found.get(name) != self.kept.get(name)}
        return found

    async def _read(self) -> dict[str, list[str]]:
        parts = [f"select '{name}' as name, to_jsonb(t) as row from {name} t" for name in self.tables]
        found = await self.watch.fetch(" union all ".join(parts))

        by_table: dict[str, list[dict[str, Any]]] = {}
        for name, row in found:
            kept = {column: value for column, value in json.loads(row).items() if column not in IN_ORDER.get(name, ())}
            by_table.setdefault(name, []).append(kept)
        numbers = {
            table: {n: k for k, n in enumerate(sorted(row[NUMBERED[table]] for row in by_table.get(table, [])))}
            for table in NUMBERED
        }
        for table, column in NUMBERED.items():
            for row in by_table.get(table, []):
                row[column] = numbers[NUMBERS_OF.get(table, table)].get(row[column])
        return {name: sorted(json.dumps(row, sort_keys=True) for row in rows) for name, rows in by_table.items()}

    def _runners(self, parties: tuple[Party, Party], rewrite: Callable[[Site, str], str]) -> list[Runner]:
        given = zip(self.connections, self.pids, parties, strict=True)
        runners = [Runner(connection, pid, party, rewrite) for connection, pid, party in given]
        runners[0].other, runners[1].other = runners[1], runners[0]
        return runners

    async def play(
        self, parties: tuple[Party, Party], order: tuple[int, int], rewrite: Callable[[Site, str], str]
    ) -> Outcome:
        """One begins, with so many statements; the other runs to its end, if it can; the first one goes on."""
        await self.restore()
        runners = self._runners(parties, rewrite)
        begins, statements = order
        y, x = runners[begins], runners[1 - begins]
        for _ in range(statements):
            await y.step(self.watch)
        ran = await x.finish(self.watch)
        waited_at = None if ran or x.reruns else len(x.trace)
        while not (x.done and y.done):  # where both wait, the server ends one of them
            await y.finish(self.watch)
            await x.finish(self.watch)
        results = (runners[0].result, runners[1].result)
        deadlocks = sum(runner.deadlocks for runner in runners)
        return Outcome(f"{'AB'[begins]}{statements}", results, await self.rows(), deadlocks, waited_at)

    async def alone(self, parties: tuple[Party, Party], acts: int) -> Outcome:
        """One of them acts, and the other passes over everything."""
        await self.restore()
        runner = Runner(self.connections[acts], self.pids[acts], parties[acts], as_written)
        assert await runner.finish(self.watch)
        results = [parties[0].passed, parties[1].passed]
        results[acts] = runner.result
        return Outcome(f"{'AB'[acts]} alone", (results[0], results[1]), await self.rows())

    async def serial(
        self, parties: tuple[Party, Party], begins: int, rewrite: Callable[[Site, str], str] = as_written
    ) -> tuple[Outcome, list[Step]]:
        """One after the other; and the steps of the first one."""
        await self.restore()
        runners = self._runners(parties, rewrite)
        for runner in (runners[begins], runners[1 - begins]):
            assert await runner.finish(self.watch)
        results = (runners[0].result, runners[1].result)
        return Outcome(f"{'AB'[begins]} first", results, await self.rows()), runners[begins].trace


Traces = tuple[list[Step], list[Step]]


def orders(traces: Traces, begins: int) -> list[int]:
    """With how many statements one of both begins, of the orders that can differ from the one before."""
    written = frozenset[str]().union(*(step.written for step in traces[1 - begins]))
    locked = frozenset[str]().union(*(step.locked for step in traces[1 - begins]))
    return [
        n
        for n, step in enumerate(traces[begins], start=1)
        if step.touched is None or step.touched & written or step.claimed & locked
    ]


async def overlapping(
    stage: Stage, parties: tuple[Party, Party], rewrite: Callable[[Site, str], str], traces: Traces
) -> AsyncIterator[Outcome]:
    """What comes of each order that is not serial and can differ from the others."""
    passes = any(step.passes for trace in traces for step in trace)
    for begins in (0, 1):
        counts = orders(traces, begins)
        waits: dict[int, int | None] = {}
        spans = [(0, len(counts) - 1)] if counts else []
        while spans:
            low, high = spans.pop()
            for n in sorted({low, high} - set(waits)):
                played = await stage.play(parties, (begins, counts[n]), rewrite)
                waits[n] = None if passes else played.waited_at
                yield played
            if high - low > 1 and (waits[low] is None or waits[low] != waits[high]):
                middle = (low + high) // 2
                spans += [(middle, high), (low, middle)]


async def outcomes(
    stage: Stage, parties: tuple[Party, Party], rewrite: Callable[[Site, str], str] = as_written
) -> AsyncIterator[Outcome]:
    """What comes of each order, for a promise of its own."""
    (first, trace_a), (second, trace_b) = [await stage.serial(parties, begins, rewrite) for begins in (0, 1)]
    yield first
    yield second
    async for played in overlapping(stage, parties, rewrite, (trace_a, trace_b)):
        yield played


async def faults(
    stage: Stage,
    parties: tuple[Party, Party],
    rewrite: Callable[[Site, str], str] = as_written,
) -> AsyncIterator[str]:
    """Each order whose outcome no serial order gives, and each deadlock."""
    first, trace_a = await stage.serial(parties, 0)
    second, trace_b = await stage.serial(parties, 1)
    sound = [first, second, *[await stage.alone(parties, acts) for acts in (0, 1) if parties[1 - acts].passed]]
    if rewrite is not as_written:
        (rewritten_first, trace_a), (rewritten_second, trace_b) = [
            await stage.serial(parties, begins, rewrite) for begins in (0, 1)
        ]
        for played, expected in ((rewritten_first, first), (rewritten_second, second)):
            if not played.same(expected):
                yield f"{played.order}: {_difference(played, expected)}"
    async for played in overlapping(stage, parties, rewrite, (trace_a, trace_b)):
        if played.deadlocks:
            yield f"{played.order}: a deadlock"
        if not any(played.same(one) for one in sound):
            yield f"{played.order}: {_difference(played, first, second)}"


def _difference(played: Outcome, *serial: Outcome) -> str:
    lines = [f"results {played.results}, and not one of {[one.results for one in serial]}"]
    for one in serial:
        for table in sorted({*played.rows, *one.rows}):
            mine, theirs = set(played.rows.get(table, [])), set(one.rows.get(table, []))
            lines += [f"  {table} + {row[:400]}" for row in sorted(mine - theirs)]
            lines += [f"  {table} - {row[:400]}  ({one.order})" for row in sorted(theirs - mine)]
    return "\n".join(lines)


@asynccontextmanager
async def open_stage(dsn: str, schema: str) -> AsyncIterator[Stage]:
    opened: list[Any] = []
    try:
        for _ in range(3):
            connection = await asyncpg.connect(
                dsn,
                server_settings=SETTINGS | {"search_path": schema},
                statement_cache_size=STATEMENTS_KEPT_MAX,
                max_cached_statement_lifetime=0,
            )
            opened.append(connection)
        for connection in opened:
            await connection.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=float)
        pids = [connection.get_server_pid() for connection in opened]
        yield Stage(opened[0], (opened[1], opened[2]), (pids[1], pids[2]))
    finally:
        for connection in opened:
            connection.terminate()
