"""The context cache: an LRU cache of contexts, so that a read fetches only new entries.

The cache may be lost at any time. Its size limit counts bytes, because contexts differ widely in length.
"""

from collections import OrderedDict

from holdfast.kernel.ids import SessionId
from holdfast.store.database import Database
from holdfast.turns.context import Context
from holdfast.turns.context_sql import read_context

BYTES_MAX = 96_000_000  # all contexts together, with their rendered messages
EACH_BYTES_MAX = BYTES_MAX // 4  # a larger context is not cached: it would replace those of all other sessions
CONTEXT_BYTES = 2_000  # a context without its entries


class ContextCache:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._contexts: OrderedDict[SessionId, Context] = OrderedDict()
        self.bytes = 0

    async def read(self, session: SessionId) -> Context:
        """The newest valid summary of a session and all entries after it, including the steps of an open turn."""
        context = await self._db.read(read_context(session, self.get(session)))
        self.keep(context)
        return context

    def get(self, session: SessionId) -> Context | None:
        return self._contexts.get(session)

    def keep(self, context: Context) -> None:
        self._drop(context.session)
        size = _bytes(context)
        if size > EACH_BYTES_MAX:
            return
        self._contexts[context.session] = context
        self.bytes += size
        while self.bytes > BYTES_MAX:
            self._drop(next(iter(self._contexts)))

    def clear(self) -> None:
        self._contexts.clear()
        self.bytes = 0

    def _drop(self, session: SessionId) -> None:
        gone = self._contexts.pop(session, None)
        self.bytes -= _bytes(gone) if gone else 0


def _bytes(context: Context) -> int:
    return CONTEXT_BYTES + context.memo.bytes(context.entries)
