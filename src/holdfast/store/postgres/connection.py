"""One connection to PostgreSQL, in libpq's pipeline mode: many statements, one round trip.

Rule 1: `send` only queues a statement. `sync` sends the queue and waits for its results, so statements whose rows the
        caller does not need travel with the next one whose rows it does.
Rule 2: the server runs the statements in order. If one fails, it skips the rest of the queue, and `sync` raises
        the first error.
Rule 3: a connection whose state is unknown (a lost socket, a timeout, a cancelled caller) is closed and never used
        again; the server is asked to cancel what it still runs.

psycopg opens the connection and converts rows; its cursors are not used, because one statement through a cursor costs
the client more than the server's work. A parameter is a str, int, float, bytes or None.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import NumericBinaryLoader

from holdfast.kernel.errors import InvariantBroken
from holdfast.store.script import Row

CONNECT_TIMEOUT_S = 10
CANCEL_TIMEOUT_S = 5.0
STATEMENTS_PREPARED_MAX = 512  # scripts hold a few hundred; beyond this a connection is replaced

Notified = Callable[[bytes], None]  # called with the payload of a notification


class PipelineConnection:
    """A server session that belongs to one caller at a time and to the loop that opened it."""

    def __init__(self, session: psycopg.AsyncConnection[Row]) -> None:
        self._session = session
        self._libpq = session.pgconn
        self._loop = asyncio.get_running_loop()
        self._reader = Transformer(session)
        self._queue: list[tuple[str, Sequence[Any]]] = []
        self._prepared: dict[str, bytes] = {}
        self._preparing: dict[str, bytes] = {}
        self._names = 0
        self._unread = 0  # queues that were sent and whose results no caller waits for
        self._arrived: asyncio.Future[None] | None = None
        self._notified: Notified | None = None
        self.round_trips = 0
        self.idle_since_s = self._loop.time()
        self.is_closed = False
        session.adapters.register_loader("numeric", _Number)
        self._libpq.enter_pipeline_mode()
        # libpq closes its socket by itself; the number of our copy cannot become that of another file meanwhile.
        self._socket = os.dup(self._libpq.socket)
        self._loop.add_reader(self._socket, self._on_input)

    @classmethod
    async def open(cls, dsn: str, settings: dict[str, str]) -> Self:
        """Connect and apply session settings. Raises `psycopg.Error` and `OSError`."""
        session: psycopg.AsyncConnection[Row] = await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, client_encoding="utf8"
        )
        connection = cls(session)
        for name, value in settings.items():
            connection.send("select set_config($1, $2, false)", (name, value))
        try:
            await connection.sync(CONNECT_TIMEOUT_S)
        except BaseException:
            connection.terminate()
            await connection.end()
            raise
        return connection

    def send(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Queue one statement with parameters `$1`, `$2`, ..."""
        self._queue.append((sql, params))

    @property
    def is_worn(self) -> bool:
        """Whether it holds so many prepared statements that a new connection is cheaper."""
        return len(self._prepared) > STATEMENTS_PREPARED_MAX

    @property
    def is_queue_empty(self) -> bool:
        return not self._queue

    def forget_queue(self) -> None:
        """Drop the statements that were not sent yet."""
        self._queue.clear()

    async def sync(self, timeout_s: float) -> list[PGresult]:
        """Send the queue and return the result of each statement in it. Raises its first error."""
        self.round_trips += 1
        try:
            async with asyncio.timeout(timeout_s):
                sent = self._flush()
                results = await self._results()
        except BaseException:  # its state is unknown, also after a cancellation
            self.terminate()
            raise
        answers = []
        for sql, result in zip(sent, results, strict=False):
            if result.status == ExecStatus.FATAL_ERROR:
                raise self._error(result)
            if sql is None:
                answers.append(result)
            else:
                self._prepared[sql] = self._preparing.pop(sql)
        return answers

    async def fetch(self, sql: str, params: Sequence[Any] = (), *, timeout_s: float) -> list[Row]:
        """Run one statement after the queue, in the same round trip, and return its rows."""
        self.send(sql, params)
        return self.rows((await self.sync(timeout_s))[-1])

    def rows(self, result: PGresult) -> list[Row]:
        self._reader.set_pgresult(result)
        return self._reader.load_rows(0, result.ntuples, tuple)

    def finish(self, sql: str) -> None:
        """Send a last statement, whose outcome is of no interest, without waiting. The queue is empty."""
        try:
            self._libpq.send_query_params(sql.encode(), None)
            self._libpq.pipeline_sync()
        except psycopg.Error:
            self.terminate()
            return
        self._on_output()
        self._unread += 1

    async def listen(self, channel: str, notified: Notified) -> None:
        self._notified = notified
        await self.fetch(f"listen {channel}", timeout_s=CONNECT_TIMEOUT_S)

    def terminate(self) -> None:
        """Close at once. `end` follows, because the server may still run a statement."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        os.close(self._socket)
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_exception(psycopg.OperationalError("the connection was closed"))
        if self._libpq.transaction_status != TransactionStatus.ACTIVE:
            self._libpq.finish()

    async def end(self) -> None:
        """Cancel at the server what was still running when the connection was closed."""
        if self._is_lost():
            return
        with suppress(psycopg.Error, OSError):
            await self._session.cancel_safe(timeout=CANCEL_TIMEOUT_S)
        self._libpq.finish()

    def _is_lost(self) -> bool:
        return self._libpq.status == ConnStatus.BAD

    def _flush(self) -> list[str | None]:
        """Hand the queue to libpq; what does not fit into the socket now is sent when it can be.

        Returns an item for each result to come: None, or the statement that is prepared.
        """
        sent: list[str | None] = []
        self._preparing.clear()
        for sql, params in self._queue:
            name = self._prepared.get(sql) or self._preparing.get(sql)
            if name is None:
                self._names += 1
                name = self._preparing[sql] = b"s%d" % self._names
                self._libpq.send_prepare(name, sql.encode())
                sent.append(sql)
            values, formats = _encoded(params)
            self._libpq.send_query_prepared(name, values, formats, Format.BINARY)
            sent.append(None)
        self._queue.clear()
        self._libpq.pipeline_sync()
        self._on_output()
        return sent

    def _error(self, result: PGresult) -> psycopg.Error:
        """The error of a result. After a fatal one the server has closed the connection."""
        if result.error_field(DiagnosticField.SEVERITY_NONLOCALIZED) != b"ERROR":
            self.terminate()
        return error_from_result(result, encoding="utf-8")

    async def _results(self) -> list[PGresult]:
        """The results since the last sync that a caller waited for; those of `finish` are dropped."""
        results: list[PGresult] = []
        while True:
            while self._libpq.is_busy():
                self._arrived = self._loop.create_future()
                await self._arrived
            result = self._libpq.get_result()
            if result is None:
                if self._is_lost():
                    raise psycopg.OperationalError("the server closed the connection")
                continue
            if result.status != ExecStatus.PIPELINE_SYNC:
                results.append(result)
            elif self._unread:
                self._unread -= 1
                results.clear()
            else:
                return results

    def _on_input(self) -> None:
        try:
            self._libpq.consume_input()
            while (notice := self._libpq.notifies()) is not None:
                if self._notified is not None:
                    self._notified(notice.extra)
        except psycopg.OperationalError as error:
            if self._arrived is not None and not self._arrived.done():
                self._arrived.set_exception(error)
            self.terminate()
            return
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _on_output(self) -> None:
        try:
            is_more = self._libpq.flush()
        except psycopg.OperationalError:
            is_more = 0  # the reader finds out why
        if is_more:
            self._loop.add_writer(self._socket, self._on_output)
        else:
            self._loop.remove_writer(self._socket)


def _encoded(params: Sequence[Any]) -> tuple[list[bytes | None], list[int]]:
    """Parameters in libpq's formats: text, and binary for bytes."""
    values: list[bytes | None] = []
    formats = [Format.TEXT] * len(params)
    for place, value in enumerate(params):
        match value:
            case None:
                values.append(None)
            case str():
                values.append(_text(value))
            case bytes() | bytearray() | memoryview():
                values.append(bytes(value))
                formats[place] = Format.BINARY
            case int():
                values.append(b"%d" % value)
            case float():
                values.append(repr(value).encode())
            case _:
                raise InvariantBroken(f"a parameter is a {type(value).__name__}")
    return values, formats  # type: ignore[return-value]


def _text(value: str) -> bytes:
    if "\0" in value:  # libpq would cut it off there
        raise InvariantBroken("a text with a NUL cannot be stored")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvariantBroken("a text with a lone surrogate cannot be stored") from error


class _Number(NumericBinaryLoader):
    """Reads `sum(int8)` as an int, as SQLite does; PostgreSQL returns numeric."""

    def load(self, data: Any) -> Any:  # noqa: ANN401
        number = super().load(data)
        return int(number) if number == number.to_integral_value() else float(number)
