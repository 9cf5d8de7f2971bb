"""The local provider: memory in a file of its own beside the store, without any server.

Rule 1: one call of `deliver` is one transaction, durable before anything is acknowledged.
Rule 2: SQLite works off the event loop, through the port. Writers take turns, and so do questions, but a question
        never waits for a delivery. A call that nobody waits for any more still runs to its end.
Rule 3: the index may be thrown away at any time. Until `rebuild` has filled it again it says `needs_rebuild`. While it
        is filled deliveries are held back (filling.py).
Rule 4: an index that is found damaged is set aside by the next delivery, never by a question: a command that only asks
        must not move a file that a running process writes to.

It does not know the runtime: anybody with a folder and three ports can ask it.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TypeVar

import apsw

from holdfast.kernel.errors import ProviderFailed
from holdfast.memory.delivery import Delivered, Landing, Op, Outcome, Parcel, Uncertain, Unreachable
from holdfast.memory.provider import Capabilities, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.local import index_file
from holdfast.providers.local.filling import Filling
from holdfast.providers.local.recalling import Asking
from holdfast.providers.local.settings import LocalSettings
from holdfast.providers.local.writing import apply

DELIVERED_MEANS = "the search index on this machine has it, written to disk"

REBUILD_BATCH = 500  # parcels in one visit
DAMAGE = (*index_file.DAMAGE, index_file.Damaged)
FAULTS = (apsw.Error, OSError, index_file.NotOurs, index_file.Damaged, index_file.Full)
UNWRITTEN = (apsw.BusyError, apsw.FullError, apsw.ReadOnlyError)  # a COMMIT that fails so has changed nothing
T = TypeVar("T")


class CommitFailed(Exception):
    """Nobody can say whether the transaction happened until the file is read again."""


class LocalProvider:
    def __init__(self, setup: ProviderSetup, settings: LocalSettings) -> None:
        self._setup = setup
        self._settings = settings
        self._folder = setup.folder
        self._key = setup.key
        self._writing = threading.Lock()
        self._asking = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._anchors: dict[str, tuple[int, int] | None] = {}
        self._is_damaged = False
        self._needs_rebuild = False
        self._rebuilding = asyncio.Lock()  # one after another: each begins by emptying the index
        self._filling: Filling | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            renderer="local/1",
            retracts=True,
            lanes_per_call=256,
            units_per_lane=64,
            calls_max=2,  # one writes while the next is being gathered
            quiet_ms=0,  # a call that ended has no effect later
            delivered_means=DELIVERED_MEANS,
        )

    @property
    def needs_rebuild(self) -> bool:
        """Whether lines are missing that were delivered once. Known after the first delivery or `healthy`."""
        return self._needs_rebuild

    # --- the port ----------------------------------------------------------------------------------

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        if not parcels:
            return []
        return await self._setup.tasks.in_thread(lambda: self._deliver(tuple(parcels)))

    async def landed(self, parcel: Parcel) -> Landing:
        return await self._setup.tasks.in_thread(lambda: self._landed(parcel))

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        if query.limit < 1 or not query.text.strip():
            return []
        return await self._setup.tasks.in_thread(lambda: self._recall(query))

    async def healthy(self) -> str | None:
        return await self._setup.tasks.in_thread(self._healthy)

    async def close(self) -> None:
        await self._setup.tasks.in_thread(self._close)

    async def rebuild(self, parcels: AsyncIterator[Parcel]) -> int:
        """Empty the index and fill it from the journal's parcels, in order; how many were taken.

        Broken off, the index is as it was. What was erased stays erased. Raises `ProviderFailed`.
        """
        async with self._rebuilding:
            filling = self._filling = Filling(self._folder, self._key)
            try:
                return await self._fill(filling, parcels)
            finally:
                self._filling = None
                await self._setup.tasks.in_thread(filling.close)

    async def _fill(self, filling: Filling, parcels: AsyncIterator[Parcel]) -> int:
        await self._visit(self._open_for_writing)  # a damaged one is set aside
        await self._visit(filling.begin)
        count, batch = 0, list[Parcel]()
        async for parcel in parcels:
            batch.append(parcel)
            if len(batch) == REBUILD_BATCH:
                count += await self._visit(partial(filling.take, tuple(batch)))
                batch = []
        count += await self._visit(partial(filling.take, tuple(batch)))
        await self._visit(filling.commit)
        await self._visit(self._open_for_writing)
        return count

    async def _visit(self, work: Callable[[], T]) -> T:
        try:
            return await self._setup.tasks.in_thread(work)
        except FAULTS as error:
            self._is_damaged |= isinstance(error, index_file.DAMAGE)
            raise ProviderFailed(f"the local index cannot be written ({index_file.why(error)})") from error

    # --- in a thread: writing ------------------------------------------------------------------------

    def _deliver(self, parcels: tuple[Parcel, ...]) -> list[Outcome]:
        if self._filling is not None:
            return [Unreachable("the local index is being filled again")] * len(parcels)
        try:
            with self._writing:
                outcomes = self._write(lambda db: _apply_all(db, parcels))
                if any(parcel.op is Op.ERASE for parcel in parcels):
                    self._scrub()
        except CommitFailed as error:
            return [Uncertain(f"the local index could not be committed ({error})")] * len(parcels)
        except FAULTS as error:  # what landed before a failed scrub is known by its id when it comes again
            return [Unreachable(f"the local index cannot be written ({index_file.why(error)})")] * len(parcels)
        return outcomes

    def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        """One transaction. The caller holds the lock."""
        db = self._open_writer()
        try:
            db.execute("begin immediate")
            result = work(db)
        except BaseException as error:
            self._is_damaged |= isinstance(error, DAMAGE)
            full = index_file.out_of_space(error, db)
            self._drop_writer()
            if full is not None:
                raise full from error
            raise
        try:
            db.execute("commit")
        except apsw.Error as error:
            why = index_file.why(error, db)
            self._drop_writer()
            if isinstance(error, UNWRITTEN):
                raise
            raise CommitFailed(why) from error
        return result

    def _open_writer(self) -> apsw.Connection:
        if self._is_damaged:
            self._set_aside()
        if self._writer is not None and index_file.identity(self._folder) == self._anchors.get("writer"):
            return self._writer
        self._drop_writer()
        try:
            self._writer = index_file.open_writer(self._folder, self._key)
        except index_file.Damaged:
            self._set_aside()
            self._writer = index_file.open_writer(self._folder, self._key)
        self._anchors["writer"] = index_file.identity(self._folder)
        self._needs_rebuild = _is_marked(self._writer)
        return self._writer

    def _set_aside(self) -> None:
        self._drop_writer()
        with self._asking:
            self._drop_reader()
            index_file.set_aside(self._folder, self._setup.clock.now())
        self._is_damaged = False

    def _scrub(self) -> None:
        """Leave no byte of what was erased: in the index's segments, in the log, or in a copy that was set aside."""
        index_file.forget_set_aside(self._folder)
        with self._asking:  # a question's snapshot would keep the log
            db = self._open_writer()
            db.execute("insert into words (words) values ('optimize')")  # FTS5 keeps words as marks between its pages
            busy, *_ = index_file.rows(db, "pragma wal_checkpoint(truncate)")[0]
            if busy:
                raise apsw.BusyError("another process reads the index; what was erased is still in its log")

    # --- in a thread: asking -------------------------------------------------------------------------

    def _landed(self, parcel: Parcel) -> Landing:
        try:
            with self._asking:
                db = self._open_reader()
                if db is None:
                    return Landing.ABSENT
                found = index_file.rows(db, "select is_erased from unit where delivery = ?", (parcel.id,))
        except (*FAULTS, UnicodeEncodeError) as error:
            self._is_damaged |= isinstance(error, DAMAGE)
            return Landing.POSSIBLE
        return Landing.LANDED if found and not found[0][0] else Landing.ABSENT

    def _recall(self, query: RecallQuery) -> list[Recollection]:
        limit, found = min(query.limit, self._settings.limit), list[Recollection]()
        try:
            with self._asking:
                db = self._open_reader()
                if db is None:
                    return []
                with db:  # all its reads see the same moment
                    found = Asking(db, query, self._setup.clock.now()).best(self._setup.name, limit)
        except (*FAULTS, UnicodeEncodeError) as error:
            self._is_damaged |= isinstance(error, DAMAGE)
            raise ProviderFailed(
                f"the local index cannot be read ({index_file.why(error)})", provider=self._setup.name
            ) from error
        return found

    def _open_reader(self) -> apsw.Connection | None:
        if self._reader is None or index_file.identity(self._folder) != self._anchors.get("reader"):
            self._drop_reader()
            self._reader = index_file.open_reader(self._folder, self._key)
            self._anchors["reader"] = index_file.identity(self._folder)
        return self._reader

    def _healthy(self) -> str | None:
        try:
            self._open_for_writing()
        except FAULTS as error:
            return f"the local index cannot be opened ({index_file.why(error)})"
        return None

    def _open_for_writing(self) -> None:
        with self._writing:
            self._needs_rebuild = _is_marked(self._open_writer())

    # --- closing -------------------------------------------------------------------------------------

    def _close(self) -> None:
        if (filling := self._filling) is not None:
            filling.close()
        with self._writing, self._asking:
            self._drop_reader()
            self._drop_writer()

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close(True)  # an open transaction is rolled back
            self._writer = None

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader.close(True)
            self._reader = None


def _apply_all(db: apsw.Connection, parcels: Sequence[Parcel]) -> list[Outcome]:
    """One outcome each. Behind a parcel that was refused nothing of its lane is taken, so that order holds."""
    outcomes: list[Outcome] = []
    held: set[str] = set()
    for parcel in parcels:
        held_back = Unreachable("an earlier delivery of its lane was refused")
        outcome = held_back if parcel.place in held else apply(db, parcel)
        if not isinstance(outcome, Delivered):
            held.add(parcel.place)
        outcomes.append(outcome)
    return outcomes


def _is_marked(db: apsw.Connection) -> bool:
    return bool(index_file.rows(db, "select value from state where name = 'needs_rebuild'")[0][0])
