"""The keeper: an agent's own memory, as its tool, its files, its instructions and its people reach it.

Whoever changes it changes it here: the change is durable and on its way to every provider when this returns.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from holdfast.audit.actor import acting
from holdfast.inbox.access_sql import is_admitted
from holdfast.kernel import log
from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.delivery import Outcome
from holdfast.memory.notes import (
    DELIMITER,
    Change,
    Memory,
    MemoryBatch,
    MemoryOutcome,
    MemoryUndo,
    MemoryVerb,
    NotApplied,
    Target,
)
from holdfast.memory.notes_plan import entry_named
from holdfast.memory.notes_prompt import notes_block, soul_text
from holdfast.memory.notes_review import may_be_stranger
from holdfast.memory.notes_sql import apply_memory, read_memory, read_shown_notes, undo_memory
from holdfast.memory.providers import Providers
from holdfast.memory.visibility import Audience, ShownNotes, holder_of, is_group
from holdfast.store.database import Database
from holdfast.turns.context import Context
from holdfast.turns.policy import AccessPolicy, AgentPolicy

BRIEFINGS_KEPT = 1_024


def _nobody() -> None:
    """Nobody waits for news yet."""


class Keeper:
    """Implements `MemoryKeeper`."""

    def __init__(self, db: Database, providers: Providers) -> None:
        self._db = db
        self._providers = providers
        self.changed: Callable[[], None] = _nobody  # rung after every change

    async def memory(self, agent: AgentName, subject: str) -> Memory:
        return await self._db.read(read_memory(agent, subject))

    async def shown(self, audience: Audience) -> ShownNotes:
        """The notes that an audience may be shown, those of linked accounts included."""
        return await self._db.read(read_shown_notes(audience))

    async def apply(self, batch: MemoryBatch) -> MemoryOutcome:
        outcome = await self._db.write(
            apply_memory(replace(batch, policies=self._providers.policies(batch.agent)), by=acting())
        )
        self.changed()
        return outcome

    async def undo(self, undo: MemoryUndo) -> MemoryOutcome:
        outcome = await self._db.write(
            undo_memory(replace(undo, policies=self._providers.policies(undo.agent)), by=acting())
        )
        self.changed()
        return outcome

    async def move(self, batch: MemoryBatch, to: str) -> MemoryOutcome:
        """Give the entry that the batch's one change names to another scope.

        The new note first, then the removal. An origin counts in its own scope, so a repeat does what is missing.
        """
        (named,) = batch.changes
        entry = entry_named(await self.memory(batch.agent, batch.subject), named)
        if isinstance(entry, NotApplied):
            return entry
        added = Change(verb=MemoryVerb.ADD, target=named.target, text=entry.text)
        outcome = await self.apply(replace(batch, subject=to, changes=(added,)))
        if isinstance(outcome, NotApplied) or to == batch.subject:
            return outcome
        gone = Change(verb=MemoryVerb.REMOVE, target=named.target, version=entry.seq)
        removed = await self.apply(replace(batch, changes=(gone,)))
        return removed if isinstance(removed, NotApplied) else outcome

    async def strangers(
        self, agent: AgentName, access: AccessPolicy, principals: Collection[Principal]
    ) -> frozenset[Principal]:
        """Those of the principals whom no operator let in by name (memory/notes_review.py)."""
        asked = sorted(one for one in principals if may_be_stranger(one, access))
        return frozenset([one for one in asked if not await self._db.read(is_admitted(agent, one))])

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
        kept = await self.memory(agent, subject)
        own = tuple(one for one in kept.entries if holder_of(subject, one.by, one.principal) == subject)
        memory = replace(kept, entries=own)
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


@dataclass(frozen=True, slots=True)
class Brief:
    """What stands before a conversation: the operator's text, and the notes as data."""

    instructions: str = ""
    notes: str = ""

    @property
    def text(self) -> str:
        """All of it, to be counted."""
        return f"{self.instructions}{self.notes}"


class Briefing:
    """Reads what stands before a conversation: the operator's instructions, and the notes that its audience may see.

    The notes are those of the time when a session began or was last compressed, so that the prefix of its contexts
    stays the same bytes in between. They are held in RAM under the number of withdrawals that the store counts: what
    was forgotten, and what an unlinked account noted, is in no later context of any process.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._kept: OrderedDict[tuple[Audience, int, int], Brief] = OrderedDict()
        self._clearings = 0

    async def read(self, policy: AgentPolicy, context: Context, audience: Audience) -> Brief:
        key = (audience, context.summaries, context.withdrawals)
        while key not in self._kept:  # again only when something was forgotten while it was read
            clearings = self._clearings
            brief = await self._brief(policy, audience)
            if clearings == self._clearings:
                self._kept[key] = brief
        self._kept.move_to_end(key)
        while len(self._kept) > BRIEFINGS_KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]

    def clear(self) -> None:
        """Something was forgotten: no copy of it stays in RAM."""
        self._clearings += 1
        self._kept.clear()

    async def _brief(self, policy: AgentPolicy, audience: Audience) -> Brief:
        shown = await self._keeper.shown(audience)
        speakers = {entry.principal for entry in (*shown.own.entries, *(one.entry for one in shown.others))}
        strangers = await self._keeper.strangers(audience.agent, policy.access, speakers)
        soul = soul_text(await self._keeper.soul(audience.agent))
        instructions = "\n\n".join(part for part in (policy.instructions, soul) if part)
        return Brief(instructions, notes_block(shown, policy.notes.capacity, strangers))


def audience_of(policy: AgentPolicy, context: Context, principal: Principal, address: str) -> Audience:
    """Who reads the contexts of a session: its speaker, at its address, and in a shared chat everybody there."""
    return Audience(
        agent=context.agent,
        principal=principal,
        address=address,
        session=context.session,
        is_group=context.shared or is_group(address),
        private_in_groups=policy.recall.private_in_groups,
        shares_all=policy.recall.shares_all,
    )
