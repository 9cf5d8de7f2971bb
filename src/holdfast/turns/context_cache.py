"""The shelf: contexts read before, so that only what is new has to be read. RAM that can vanish, and is bounded.

The bound is on the entries that are held together, since a context may be short or very long. The one that was used
longest ago goes first.
"""

from collections import OrderedDict

from holdfast.kernel.ids import SessionId
from holdfast.turns.context import Context

CONTEXTS_MAX = 1_024
ENTRIES_MAX = 20_000  # of all contexts together: some twenty megabytes of usual talk
ENTRIES_EACH_MAX = 2_000  # a longer tail is read again rather than held


class ContextShelf:
    def __init__(self) -> None:
        self._contexts: OrderedDict[SessionId, Context] = OrderedDict()
        self.entries = 0

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
