"""The context cache: contexts that were read before, so that only what is new has to be read.

It is memory that may be lost at any time. The bound is on the entries that all contexts hold together, since a context
may be short or very long. The context that was used longest ago is dropped first.
"""

from collections import OrderedDict

from holdfast.kernel.ids import SessionId
from holdfast.store.database import Database
from holdfast.turns.context import Context
from holdfast.turns.context_sql import read_context

CONTEXTS_MAX = 1_024
ENTRIES_MAX = 20_000  # of all contexts together: some twenty megabytes of usual talk
ENTRIES_EACH_MAX = 2_000  # a longer tail is read again rather than held


class ContextCache:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._contexts: OrderedDict[SessionId, Context] = OrderedDict()
        self.entries = 0

    async def read(self, session: SessionId) -> Context:
        """The newest valid summary of a session and everything after it, steps of an open turn included."""
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
