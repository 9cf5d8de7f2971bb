"""The local provider: memory in a file of its own beside the store, without any server.

Rule 1: one call of `deliver` is one transaction, durable before it is acknowledged.
Rule 2: SQLite writes in threads, through the tasks port. One lock serialises writers and another readers, so a query
        never waits for a delivery. A call whose caller was cancelled still runs to its end.
        A query reads a bounded number of rows, which costs less than a thread's wake-up is worth: it runs in place if
        the index is open and no other query or erasure holds it. Between two queries the event loop makes a pass, so
        many turns that ask at once do not keep messages from being accepted.
Rule 3: the index may be deleted at any time. `needs_rebuild` is true until `rebuild` has filled it again, and
        deliveries are refused during a rebuild (rebuild.py).
Rule 4: the next delivery sets a damaged index aside, never a query: a command that only reads must not move a file that
        a running process writes to.

The provider does not depend on the runtime; it needs a folder and three ports. `make_local` makes it from the table
[agents.NAME.memory.local] of holdfast.toml.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Annotated, TypeVar

import apsw
from msgspec import Meta, Struct

from holdfast.kernel.errors import EngineUnsafe, ProviderFailed
from holdfast.kernel.settings_table import read_table
from holdfast.memory.delivery import Delivered, Landing, Op, Outcome, Parcel, PerSession, Uncertain, Unreachable
from holdfast.memory.provider import Capabilities, Configured, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.local import index_file
from holdfast.providers.local.index_writer import apply, index_many_fresh
from holdfast.providers.local.rebuild import IndexRebuild
from holdfast.providers.local.search import IndexSearch

DELIVERED_MEANS = "the search index on this machine has it, written to disk"
REBUILD_BATCH = 500  # parcels per thread call
DAMAGE = (*index_file.DAMAGE, index_file.IndexDamaged)
FAULTS = (apsw.Error, OSError, EngineUnsafe, index_file.ForeignIndex, index_file.IndexDamaged, index_file.IndexDiskFull)
UNWRITTEN = (apsw.BusyError, apsw.FullError, apsw.ReadOnlyError)  # a COMMIT that fails so has no effect
T = TypeVar("T")


class CommitFailed(Exception):
    """The outcome of the transaction is unknown until the file is read again."""


class LocalProvider:
    capabilities = Capabilities(
        renderer="local/1",
        retracts=True,
        lanes_per_call=256,
        units_per_lane=64,
        calls_max=2,  # one writes while the next is gathered
        gather_ms=50,  # a call costs several times a line of it
        quiet_ms=0,  # a call has no effect after it ended
        delivered_means=DELIVERED_MEANS,
    )

    def __init__(self, setup: ProviderSetup, *, limit: int) -> None:
        self._setup = setup
        self._limit = limit
        self._folder = setup.folder
        self._key = setup.key
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._identities: dict[str, tuple[int, int] | None] = {}
        self._is_damaged = False
        self.needs_rebuild = False  # delivered lines are missing; known after the first delivery or `healthy`
        self._searching = asyncio.Lock()  # searches in place: one in a pass of the event loop
        self._rebuilding = asyncio.Lock()  # one rebuild at a time: each begins by emptying the index
        self._rebuild: IndexRebuild | None = None

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
        async with self._searching:
            found = self._search_in_place(query)
            if found is not None:
                await self._setup.tasks.sleep(0)  # the event loop handles what arrived before the next search begins
                return found
        return await self._setup.tasks.in_thread(lambda: self._recall(query))

    async def healthy(self) -> str | None:
        return await self._setup.tasks.in_thread(self._healthy)

    async def close(self) -> None:
        await self._setup.tasks.in_thread(self._close)

    async def rebuild(self, parcels: AsyncIterator[Parcel]) -> int:
        """Empty the index and fill it from the journal's parcels, in order; the number of parcels.

        A rebuild that is interrupted changes nothing. Erased deliveries stay erased. Raises `ProviderFailed`.
        """
        async with self._rebuilding:
            rebuild = self._rebuild = IndexRebuild(self._folder, self._key)
            try:
                return await self._fill(rebuild, parcels)
            finally:
                self._rebuild = None
                await self._setup.tasks.in_thread(rebuild.close)

    async def _fill(self, rebuild: IndexRebuild, parcels: AsyncIterator[Parcel]) -> int:
        await self._in_thread(self._open_for_writing)  # sets a damaged index aside
        await self._in_thread(rebuild.begin)
        count, batch = 0, list[Parcel]()
        async for parcel in parcels:
            batch.append(parcel)
            if len(batch) == REBUILD_BATCH:
                count += await self._in_thread(partial(rebuild.add, tuple(batch)))
                batch = []
        count += await self._in_thread(partial(rebuild.add, tuple(batch)))
        await self._in_thread(rebuild.commit)
        await self._in_thread(self._open_for_writing)
        return count

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await self._setup.tasks.in_thread(work)
        except FAULTS as error:
            self._is_damaged |= isinstance(error, index_file.DAMAGE)
            raise ProviderFailed(f"the local index cannot be written ({index_file.why(error)})") from error

    # --- in a thread: writing ------------------------------------------------------------------------

    def _deliver(self, parcels: tuple[Parcel, ...]) -> list[Outcome]:
        if self._rebuild is not None:
            return [Unreachable("the local index is being rebuilt")] * len(parcels)
        try:
            with self._write_lock:
                outcomes = self._write(lambda db: _apply_all(db, parcels))
                if any(parcel.op is Op.ERASE for parcel in parcels):
                    self._scrub()
        except CommitFailed as error:
            return [Uncertain(f"the local index could not be committed ({error})")] * len(parcels)
        except FAULTS as error:  # a parcel that landed before a failed scrub is recognised by its id later
            return [Unreachable(f"the local index cannot be written ({index_file.why(error)})")] * len(parcels)
        return outcomes

    def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        """One transaction. The caller holds the write lock."""
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
        if self._writer is not None and index_file.identity(self._folder) == self._identities.get("writer"):
            return self._writer
        self._drop_writer()
        try:
            self._writer = index_file.open_writer(self._folder, self._key)
        except index_file.IndexDamaged:
            self._set_aside()
            self._writer = index_file.open_writer(self._folder, self._key)
        self._identities["writer"] = index_file.identity(self._folder)
        self.needs_rebuild = _needs_rebuild(self._writer)
        return self._writer

    def _set_aside(self) -> None:
        self._drop_writer()
        with self._read_lock:
            self._drop_reader()
            index_file.set_aside(self._folder, self._setup.clock.now())
        self._is_damaged = False

    def _scrub(self) -> None:
        """Leave no byte of erased text in the log, or in a copy that was set aside."""
        index_file.forget_set_aside(self._folder)
        with self._read_lock:  # the snapshot of a query would keep the log
            db = self._open_writer()
            busy, *_ = next(db.execute("pragma wal_checkpoint(truncate)"))
            if busy:
                raise apsw.BusyError("another process reads the index, so its log still holds erased text")

    # --- in a thread: reading -------------------------------------------------------------------------

    def _landed(self, parcel: Parcel) -> Landing:
        try:
            with self._read_lock:
                db = self._open_reader()
                if db is None:
                    return Landing.ABSENT
                found = db.execute("select is_erased from unit where delivery = ?", (parcel.id,)).fetchall()
        except (*FAULTS, UnicodeEncodeError) as error:
            self._is_damaged |= isinstance(error, DAMAGE)
            return Landing.POSSIBLE
        return Landing.LANDED if found and not found[0][0] else Landing.ABSENT

    def _recall(self, query: RecallQuery) -> list[Recollection]:
        with self._read_lock:
            return self._search(query)

    def _search_in_place(self, query: RecallQuery) -> list[Recollection] | None:
        """Search without a thread; None if the index is not open, or is in use by a thread."""
        is_open = self._reader is not None and index_file.identity(self._folder) == self._identities.get("reader")
        if not is_open or not self._read_lock.acquire(blocking=False):
            return None
        try:
            return self._search(query)
        finally:
            self._read_lock.release()

    def _search(self, query: RecallQuery) -> list[Recollection]:
        """The caller holds the read lock."""
        found: list[Recollection] = []
        try:
            db = self._open_reader()
            if db is not None:
                with db:  # one snapshot for all reads
                    search = IndexSearch(db, query, self._setup.clock.now())
                    found = search.best(self._setup.name, min(query.limit, self._limit))
        except (*FAULTS, UnicodeEncodeError) as error:
            self._is_damaged |= isinstance(error, DAMAGE)
            what = f"the local index cannot be read ({index_file.why(error)})"
            raise ProviderFailed(what, provider=self._setup.name) from error
        return found

    def _open_reader(self) -> apsw.Connection | None:
        if self._reader is None or index_file.identity(self._folder) != self._identities.get("reader"):
            self._drop_reader()
            self._reader = index_file.open_reader(self._folder, self._key)
            self._identities["reader"] = index_file.identity(self._folder)
        return self._reader

    def _healthy(self) -> str | None:
        try:
            self._open_for_writing()
        except FAULTS as error:
            return f"the local index cannot be opened ({index_file.why(error)})"
        return None

    def _open_for_writing(self) -> None:
        with self._write_lock:
            self.needs_rebuild = _needs_rebuild(self._open_writer())

    # --- closing -------------------------------------------------------------------------------------

    def _close(self) -> None:
        if (rebuild := self._rebuild) is not None:
            rebuild.close()
        with self._write_lock, self._read_lock:
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
    """One outcome each. After a refused parcel, the rest of its lane is not written, so that order holds."""
    outcomes: list[Outcome] = []
    held: set[str] = set()
    for parcel in parcels:
        held_back = Unreachable("an earlier delivery of its lane was refused")
        outcome = held_back if parcel.place in held else apply(db, parcel)
        if not isinstance(outcome, Delivered):
            held.add(parcel.place)
        outcomes.append(outcome)
    index_many_fresh(db)
    return outcomes


def _needs_rebuild(db: apsw.Connection) -> bool:
    return any(value for (value,) in db.execute("select value from state where name = 'needs_rebuild'"))


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    limit: Annotated[int, Meta(ge=1, le=100)] = 100  # results of one query, even if the query asks for more


def make_local(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`. The first use of the provider opens or creates the index."""
    settings = read_table("local", setup.settings, LocalSettings)
    return Configured(LocalProvider(setup, limit=settings.limit), PerSession(), every_turns=settings.every_turns)
