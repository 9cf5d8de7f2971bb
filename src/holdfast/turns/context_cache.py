"""The context cache: an LRU cache of contexts, so that a read fetches only new entries.

The cache may be lost at any time. Its size limit counts the entries of all contexts, because contexts differ widely in
length.
"""

from collections import OrderedDict

from holdfast.kernel.ids import SessionId
from holdfast.store.database import Database
from holdfast.turns.context import Context
from holdfast.turns.context_sql import read_context

CONTEXTS_MAX = 1_024
ENTRIES_MAX = 20_000  # all contexts together: about twenty megabytes of typical messages
ENTRIES_EACH_MAX = 2_000  # a longer context is not cached


class ContextCache:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._contexts: OrderedDict[SessionId, Context] = OrderedDict()
        self.entries = 0

    async def read(self, session: SessionId) -> Context:
        """The newest valid summary of a session and all entries after it, including the steps of an open turn."""
        context = await self._db.read(read_context(session, self.get(session)))
        self.keep(context)
        return context

    def get(self, session: SessionId) -> Context | None:
        return self._contexts.get(session)

    def keep(self, context: Context) -> None:
        self._drop(context.session)
        if len(context.entries) > ENTRIES_EACH_MAX:
            return
        self._contexts[context.session] = context
        self.entries += len(context.entries)
        while len(self._contexts) > CONTEXTS_MAX or self.entries > ENTRIES_MAX:
            self._drop(next(iter(self._contexts)))

    def clear(self) -> None:
        self._contexts.clear()
        self.entries = 0

    def _drop(self, session: SessionId) -> None:
        gone = self._contexts.pop(session, None)
        self.entries -= len(gone.entries) if gone else 0
