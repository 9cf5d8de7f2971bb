"""The context cache: an LRU cache of contexts, so that a read fetches only new entries, and one of their beginnings.

The caches may be lost at any time. The size limit of contexts counts bytes, because they differ widely in length.
"""

from collections import OrderedDict
from dataclasses import dataclass

from holdfast.kernel.ids import Principal, SessionId
from holdfast.memory.notes_service import NotesService
from holdfast.memory.notes_view import notes_block, soul_text
from holdfast.memory.visibility import Audience, is_group
from holdfast.store.ports import Database
from holdfast.turns.context import Context
from holdfast.turns.context_sql import read_context
from holdfast.turns.policy import AgentPolicy

BYTES_MAX = 256_000_000  # all contexts together, with their rendered messages
EACH_BYTES_MAX = BYTES_MAX // 4  # a larger context is not cached: it would replace those of all other sessions
CONTEXT_BYTES = 2_000  # a context without its entries
BRIEFINGS_KEPT = 1_024


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
        size = CONTEXT_BYTES + context.memo.bytes
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
        self.bytes -= CONTEXT_BYTES + gone.memo.bytes if gone else 0


# --- the beginning of a context ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Brief:
    """The beginning of a context: the operator's text, and the notes as data."""

    instructions: str = ""
    notes: str = ""

    @property
    def text(self) -> str:
        """Both, for counting tokens."""
        return f"{self.instructions}{self.notes}"


class Briefing:
    """Reads the beginning of a context: the operator's instructions, and the notes that the audience may see.

    The notes are those at the start of a session or at its last compression, so that the prefix of its contexts stays
    the same bytes in between. The cache key includes the store's count of withdrawals, so that forgotten notes, and
    notes of an unlinked account, are in no later context of any process. Another policy, after a reload of the
    configuration, reads both again, as a restart would.
    """

    def __init__(self, notes: NotesService) -> None:
        self._notes = notes
        self._cache: OrderedDict[tuple[Audience, int, int], tuple[AgentPolicy, Brief]] = OrderedDict()
        self._clearings = 0

    async def read(self, policy: AgentPolicy, context: Context, audience: Audience) -> Brief:
        key = (audience, context.summaries, context.withdrawals)
        while (found := self._cache.get(key)) is None or found[0] != policy:
            clearings = self._clearings
            brief = await self._brief(policy, audience)
            if clearings == self._clearings:  # otherwise the cache was cleared during the read, which is repeated
                found = self._cache[key] = (policy, brief)
                break
        self._cache.move_to_end(key)
        while len(self._cache) > BRIEFINGS_KEPT:
            self._cache.popitem(last=False)
        return found[1]

    def clear(self) -> None:
        """Drop all cached notes, because some were forgotten."""
        self._clearings += 1
        self._cache.clear()

    async def _brief(self, policy: AgentPolicy, audience: Audience) -> Brief:
        shown = await self._notes.shown(audience)
        speakers = {entry.principal for entry in (*shown.own.entries, *(one.entry for one in shown.others))}
        strangers = await self._notes.strangers(audience.agent, policy.access, speakers)
        soul = soul_text(await self._notes.soul(audience.agent))
        instructions = "\n\n".join(part for part in (policy.instructions, soul) if part)
        return Brief(instructions, notes_block(shown, policy.notes, strangers))


def audience_of(policy: AgentPolicy, context: Context, principal: Principal, address: str) -> Audience:
    """The readers of a session's contexts: its speaker, or in a shared chat all of its members."""
    return Audience(
        agent=context.agent,
        principal=principal,
        address=address,
        session=context.session,
        is_group=context.shared or is_group(address),
        private_in_groups=policy.recall.private_in_groups,
        shares_all=policy.recall.shares_all,
    )
