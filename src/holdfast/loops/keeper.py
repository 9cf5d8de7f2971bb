"""The keeper: an agent's own memory, as its tool, its files, its instructions and its people reach it.

Whoever changes it changes it here: the change is durable and on its way to every provider when this returns.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from holdfast import log
from holdfast.core.delivery import Outcome
from holdfast.core.errors import ProviderFailed
from holdfast.core.ids import AgentName, Principal, SessionId
from holdfast.core.memory import (
    DELIMITER,
    Memory,
    MemoryBatch,
    MemoryOutcome,
    MemoryUndo,
    NotesPolicy,
    Target,
    subject_of,
)
from holdfast.core.memory_prompt import memory_block
from holdfast.loops.providers import Providers
from holdfast.ports.reader import Reader
from holdfast.ports.store import Store

BRIEFINGS_KEPT = 1_024


def _nobody() -> None:
    """Nobody waits for news yet."""


class Keeper:
    """Implements `MemoryKeeper`."""

    def __init__(self, store: Store, reader: Reader, providers: Providers) -> None:
        self._store = store
        self._reader = reader
        self._providers = providers
        self.changed: Callable[[], None] = _nobody  # rung after every change

    async def memory(self, agent: AgentName, subject: str) -> Memory:
        return await self._reader.memory(agent, subject)

    async def apply(self, batch: MemoryBatch) -> MemoryOutcome:
        outcome = await self._store.apply_memory(replace(batch, policies=self._providers.policies(batch.agent)))
        self.changed()
        return outcome

    async def undo(self, undo: MemoryUndo) -> MemoryOutcome:
        outcome = await self._store.undo_memory(replace(undo, policies=self._providers.policies(undo.agent)))
        self.changed()
        return outcome

    async def soul(self, agent: AgentName) -> str | None:
        """What people wrote into SOUL.md, where the agent has files; a file that cannot be read is not shown."""
        for configured in self._providers.of(agent).values():
            read = getattr(configured.provider, "soul", None)
            if read is not None:
                try:
                    found: str | None = await read()
                except ProviderFailed as error:
                    log.warning("recall.skipped", providers=["files"], code=error.code)
                    return None
                return found
        return None

    async def migrate(self, agent: AgentName, subject: str) -> dict[str, dict[str, Outcome]]:
        """Bring the notes as they are to providers that can take files over, each at most once (R19)."""
        memory = await self.memory(agent, subject)
        files = {
            "MEMORY.md": DELIMITER.join(entry.text for entry in memory.of(Target.MEMORY)),
            "USER.md": DELIMITER.join(entry.text for entry in memory.of(Target.USER)),
            "SOUL.md": await self.soul(agent) or "",
        }
        moved: dict[str, dict[str, Outcome]] = {}
        for name, configured in self._providers.of(agent).items():
            migrate = getattr(configured.provider, "migrate", None)
            if migrate is not None:
                moved[name] = await migrate(files, subject=subject)
        return moved


class Briefing:
    """What stands before a conversation: the operator's instructions and the agent's notes.

    The notes are those of the time when a session began or was last compressed, so that the prefix of its contexts
    stays the same bytes in between. They are held in RAM: after a restart they are read anew.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._kept: OrderedDict[tuple[SessionId, int, Principal], str] = OrderedDict()
        self._clearings = 0

    async def instructions(
        self, text: str, notes: NotesPolicy, *, agent: AgentName, session: SessionId, summaries: int, who: Principal
    ) -> str:
        key = (session, summaries, who if notes.per_user else Principal(""))
        while key not in self._kept:  # again only when something was forgotten while it was read
            clearings = self._clearings
            block = await self._block(notes, agent, who)
            if clearings == self._clearings:
                self._kept[key] = block
        self._kept.move_to_end(key)
        while len(self._kept) > BRIEFINGS_KEPT:
            self._kept.popitem(last=False)
        return "\n\n".join(part for part in (text, self._kept[key]) if part)

    def clear(self) -> None:
        """Something was forgotten: every session is briefed anew."""
        self._clearings += 1
        self._kept.clear()

    async def _block(self, notes: NotesPolicy, agent: AgentName, who: Principal) -> str:
        subjects = {target: subject_of(target, who, per_user=notes.per_user) for target in Target}
        memories = {subject: await self._keeper.memory(agent, subject) for subject in set(subjects.values())}
        shown = {target: memories[subject] for target, subject in subjects.items()}
        return memory_block(shown, notes.capacity, soul=await self._keeper.soul(agent))
