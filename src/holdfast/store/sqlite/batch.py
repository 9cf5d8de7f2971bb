"""Runs scripts on a connection: many in one transaction, each isolated from the others' failures.

Rule 1: no outcome is returned before COMMIT has returned.
Rule 2: a script that raises changes nothing and does not affect other scripts of the batch.
Rule 3: after any error the transaction must still be open. A fault of the disk or the lock, or a
        transaction that SQLite rolled back, fails the whole batch, and the remaining scripts do not run.
        Damaged pages fail only the scripts that read them: each script then runs in its own transaction.
Rule 4: a COMMIT that fails on a full disk is rolled back and reported; any other failed COMMIT leaves the
        outcome unknown, and every call gets `StoreBroken`.

A crash is a `BaseException` raised by the probe: it propagates and leaves the transaction open.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import apsw

from holdfast.kernel.errors import HoldfastError, StoreBroken, StoreCorrupt
from holdfast.kernel.machine import stopwatch
from holdfast.kernel.ports import Clock
from holdfast.store.damage import StoreMeasures
from holdfast.store.script import Call, Group, Many, Query, Row
from holdfast.store.sqlite.faults import STORAGE_FAULTS, broken_by, translate

Translation: TypeAlias = Callable[[BaseException, str, apsw.Connection | None], HoldfastError]
Probe: TypeAlias = Callable[[str, str], None]  # called with the verb and the statement about to run


class Outcome(NamedTuple):
    """The outcome of one call: a value or an error."""

    value: Any = None
    error: HoldfastError | None = None


class BatchFailed(Exception):
    """Every call of the batch lost its transaction."""

    def __init__(self, cause: apsw.Error) -> None:
        super().__init__(str(cause))
        self.cause = cause


def run_batch(
    db: apsw.Connection,
    calls: Sequence[Call[Any]],
    clock: Clock,
    probe: Probe | None = None,
    measures: StoreMeasures | None = None,
) -> list[Outcome]:
    """Run every call in one durable transaction and return their outcomes in order."""
    try:
        db.execute("begin immediate")
    except apsw.Error as error:
        return _undone(db, calls, error)
    try:
        outcomes = _run_all(db, calls, clock, probe)
    except BatchFailed as failed:
        undone = _undone(db, calls, failed.cause)
        is_damaged = isinstance(undone[0].error, StoreCorrupt)
        return _run_apart(db, calls, clock, probe) if is_damaged and len(calls) > 1 else undone
    if not db.in_transaction:  # a single script was refused: there is nothing to commit
        return outcomes
    if probe:
        probe("batch", "commit")
    try:
        began_s = stopwatch()
        db.execute("commit")
        if measures is not None:
            measures.commits.append((len(calls), stopwatch() - began_s))
    except apsw.Error as error:
        return _undone(db, calls, error, translate if isinstance(error, apsw.FullError) else broken_by)
    if probe:
        probe("batch", "committed")
    return outcomes


def _run_all(db: apsw.Connection, calls: Sequence[Call[Any]], clock: Clock, probe: Probe | None) -> list[Outcome]:
    """Run the calls without savepoints first, since a script is rarely refused after it has written.

    If one is, the transaction restarts with a savepoint around each script: a script may run twice.
    """
    outcomes, is_spoilt = list[Outcome](), False
    for call in calls:
        before = db.total_changes()
        outcomes.append(_outcome(db, call, clock, probe))
        is_spoilt |= outcomes[-1].error is not None and db.total_changes() != before
    if not is_spoilt:
        return outcomes
    try:
        db.execute("rollback")
        if len(calls) == 1:
            return outcomes
        db.execute("begin immediate")
    except apsw.Error as error:
        raise BatchFailed(error) from error
    return [_run_guarded(db, call, clock, probe) for call in calls]


def _run_apart(db: apsw.Connection, calls: Sequence[Call[Any]], clock: Clock, probe: Probe | None) -> list[Outcome]:
    """Run each call in its own transaction, until a commit has an unknown outcome; the rest fail with it."""
    outcomes = list[Outcome]()
    for call in calls:
        outcomes += run_batch(db, [call], clock, probe)
        if isinstance(outcomes[-1].error, StoreBroken):
            rest = calls[len(outcomes) :]
            return outcomes + [Outcome(error=StoreBroken(str(outcomes[-1].error))) for _ in rest]
    return outcomes


def run_read(db: apsw.Connection, call: Call[Any], clock: Clock, probe: Probe | None = None) -> Outcome:
    """Run one script over one snapshot. A write is refused by a read-only connection, or after the script."""
    try:
        db.execute("begin")
        try:
            value = drive(db.cursor(), call, clock, probe)
            if db.txn_state("main") == apsw.SQLITE_TXN_WRITE:
                raise apsw.ReadOnlyError("it is undone")
            return Outcome(value)
        finally:
            if db.in_transaction:
                db.execute("rollback")
    except HoldfastError as error:
        return Outcome(error=error)
    except apsw.ReadOnlyError as error:
        return Outcome(error=translate(ValueError(f"a read tried to write ({error})"), call.verb))
    except Exception as error:  # noqa: BLE001 - a bug in a script fails its own call, never the reader
        return Outcome(error=translate(error, call.verb, db))


def drive(cursor: apsw.Cursor, call: Call[Any], clock: Clock, probe: Probe | None) -> Any:  # noqa: ANN401
    """Send a script the rows of each statement it yields, until it returns."""
    send, verb = iter(call.script()).send, call.verb
    now = clock.now()
    rows: list[Any] | None = None
    try:
        while True:
            statement = send(rows)  # type: ignore[arg-type]  # None starts a generator
            if isinstance(statement, Group):
                rows = [_answer(cursor, verb, query, now, probe) for query in statement.queries]
            else:
                rows = _answer(cursor, verb, statement, now, probe)
    except StopIteration as returned:
        return returned.value


def _answer(cursor: apsw.Cursor, verb: str, statement: Query | Many, now: int, probe: Probe | None) -> list[Row]:
    if probe:
        probe(verb, statement.sql)
    # Each statement has its own parameter dict, so the time can be added to it.
    if isinstance(statement, Many):
        for params in statement.rows:
            params["now"] = now
        cursor.executemany(statement.sql, statement.rows).fetchall()
        return []
    statement.params["now"] = now
    return cursor.execute(statement.sql, statement.params).fetchall()


def _run_guarded(db: apsw.Connection, call: Call[Any], clock: Clock, probe: Probe | None) -> Outcome:
    """Run one call in a savepoint of the open transaction; a refused call is rolled back."""
    try:
        db.execute("savepoint script")
        outcome = _outcome(db, call, clock, probe)
        if outcome.error is not None:
            db.execute("rollback to script")
        db.execute("release script")
    except apsw.Error as error:
        raise BatchFailed(error) from error
    return outcome


def _outcome(db: apsw.Connection, call: Call[Any], clock: Clock, probe: Probe | None) -> Outcome:
    try:
        outcome = Outcome(drive(db.cursor(), call, clock, probe))
    except STORAGE_FAULTS as error:
        raise BatchFailed(error) from error
    except HoldfastError as error:
        outcome = Outcome(error=error)
    except Exception as error:  # noqa: BLE001 - a bug in a script fails its own call, never the others
        outcome = Outcome(error=translate(error, call.verb))
    if not db.in_transaction:
        raise BatchFailed(apsw.AbortError(f"after {call.verb}"))
    return outcome


def _undone(
    db: apsw.Connection, calls: Sequence[Call[Any]], cause: apsw.Error, meaning: Translation = translate
) -> list[Outcome]:
    """Roll back and return an error object for each call, because each is raised in a different task."""
    try:
        roll_back(db)
    except apsw.Error as error:  # a transaction that cannot be rolled back is as bad as a failed commit
        cause, meaning = error, broken_by
    return [Outcome(error=meaning(cause, call.verb, db)) for call in calls]


def roll_back(db: apsw.Connection) -> None:
    if db.in_transaction:  # SQLite may have rolled back already
        db.execute("rollback")
