"""What a runtime asks of its database: transactions, statements and round trips, by verb. Counts, never seconds."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from holdfast.kernel.machine import AsyncTasks
from holdfast.store.ports import Database
from holdfast.store.script import Call, Change, Group, Many, R, Script
from holdfast.testing import ManualClock

STEP_MS = 50
T = TypeVar("T")
TURNS_OF_THE_LOOP = 12  # in which what a timer started reaches the database


class Counted:
    """The counts since the beginning of a measurement."""

    def __init__(self) -> None:
        self.transactions: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self.sql: Counter[str] = Counter()
        self.looks: Counter[str] = Counter()  # at rows that the script waits for

    def __repr__(self) -> str:
        return f"{sum(self.transactions.values())} transactions {dict(self.transactions)}, {dict(self.statements)}"

    @property
    def statement_count(self) -> int:
        return sum(self.statements.values())

    @property
    def transaction_count(self) -> int:
        return sum(self.transactions.values())

    @property
    def round_trips(self) -> int:
        """On PostgreSQL: one for each look at rows, and one for the end of a write."""
        return self.looks.total() + self.writes.total()

    def only(self, *verbs: str) -> "Counted":
        some = Counted()
        some.transactions = Counter({verb: self.transactions[verb] for verb in verbs})
        some.statements = Counter({verb: self.statements[verb] for verb in verbs})
        return some


class CountingDatabase:
    """Implements `Database` over another one. A look at whether another process wrote reads no table: not counted."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.counted = Counted()
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self._under_way = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work of the runtime: `is_idle` is set while there is none."""
        self._under_way += 1
        self.is_idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self.is_idle.set()

    @contextmanager
    def measured(self) -> Iterator[Counted]:
        counted = self.counted = Counted()
        try:
            yield counted
        finally:
            self.counted = Counted()

    async def write(self, call: Call[R]) -> R:
        self.counted.writes[call.verb] += 1
        return await self._run(self.inner.write, call)

    async def read(self, call: Call[R]) -> R:
        return await self._run(self.inner.read, call)

    async def _run(self, run: Any, call: Call[R]) -> R:
        counted = self.counted
        counted.transactions[call.verb] += 1
        with self.working():
            value: R = await run(Call(call.verb, partial(self._counting, counted, call), call.lock))
        return value

    def _counting(self, counted: Counted, call: Call[R]) -> Script[R]:
        script = call.script()
        try:
            statement = next(script)
            while True:
                for query in statement.queries if isinstance(statement, Group) else (statement,):
                    counted.statements[call.verb] += 1
                    counted.sql[" ".join(query.sql.split())] += 1
                counted.looks[call.verb] += not isinstance(statement, Change | Many)
                statement = script.send((yield statement))
        except StopIteration as done:
            value: R = done.value
            return value

    async def changed(self) -> bool:
        return await self.inner.changed()

    async def scrub(self) -> str:
        return await self.inner.scrub()

    def wal_bytes(self) -> int:
        return self.inner.wal_bytes()

    async def close(self) -> None:
        await self.inner.close()


class CountedTasks(AsyncTasks):
    """Tasks whose threads count as work under way."""

    def __init__(self, db: CountingDatabase) -> None:
        super().__init__()
        self._db = db

    async def in_thread(self, call: Callable[[], T]) -> T:
        with self._db.working():
            return await super().in_thread(call)


class Time:
    """The clock of the runtime and of the running loop, moved together."""

    def __init__(self, clock: ManualClock, db: CountingDatabase) -> None:
        self._clock = clock
        self._db = db
        self._ahead_s = 0.0
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        loop.time = lambda: began_s + self._ahead_s  # type: ignore[method-assign]

    async def pass_by(self, seconds: float) -> None:
        """Let time pass in small steps, each after what the last one started is done."""
        for _ in range(int(seconds * 1_000) // STEP_MS):
            self._clock.advance(STEP_MS)
            self._ahead_s += STEP_MS / 1_000
            await self.quiet()

    async def quiet(self) -> None:
        """Wait until no script runs and none is about to be started."""
        for _ in range(TURNS_OF_THE_LOOP):
            await asyncio.sleep(0)
            await self._db.is_idle.wait()
