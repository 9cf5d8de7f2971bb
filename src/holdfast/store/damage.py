"""A database wrapper that remembers damage until the process ends.

Writes can succeed for a long time beside damaged pages, so a successful write proves nothing about other pages. The
wrapper keeps the first `StoreCorrupt` of any verb; `check_table` reads pages that no verb has read yet, one table at a
time.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from holdfast.kernel import log
from holdfast.kernel.errors import StoreCorrupt
from holdfast.store.ports import Database
from holdfast.store.script import Call, R


@runtime_checkable
class PageChecked(Protocol):
    """An engine that can check its own pages."""

    async def tables(self) -> Sequence[str]:
        """The tables to check, one after another; empty if a check would take too long."""
        ...

    async def check_table(self, table: str) -> str | None:
        """Describe the damage in the pages of the table and its indexes, if any. May raise `StoreCorrupt`."""
        ...


class WatchedDatabase:
    """Implements `Database` over another database."""

    def __init__(self, inner: Database, *, on_close: Callable[[], None] | None = None) -> None:
        self._inner = inner
        self._on_close = on_close
        self.damage: StoreCorrupt | None = None

    async def write(self, call: Call[R]) -> R:
        try:
            return await self._inner.write(call)
        except StoreCorrupt as error:
            self._note(error)
            raise

    async def read(self, call: Call[R]) -> R:
        try:
            return await self._inner.read(call)
        except StoreCorrupt as error:
            self._note(error)
            raise

    async def changed(self) -> bool:
        return await self._inner.changed()

    async def scrub(self) -> str:
        return await self._inner.scrub()

    def wal_bytes(self) -> int:
        return self._inner.wal_bytes()

    async def close(self) -> None:
        await self._inner.close()
        if self._on_close is not None:
            self._on_close()

    # --- page checks

    async def tables(self) -> Sequence[str]:
        if not isinstance(self._inner, PageChecked):
            return ()
        try:
            return await self._inner.tables()
        except StoreCorrupt as error:
            self._note(error)
            return ()

    async def check_table(self, table: str) -> None:
        """Check one table and remember its damage."""
        if not isinstance(self._inner, PageChecked):
            return
        try:
            wrong = await self._inner.check_table(table)
        except StoreCorrupt as error:
            self._note(error)
            return
        if wrong is not None:
            self._note(StoreCorrupt(f"the pages of {table} are damaged ({wrong})", table=table))

    def _note(self, error: StoreCorrupt) -> None:
        if self.damage is None:
            self.damage = error
            log.error("store.damaged", why=str(error))
