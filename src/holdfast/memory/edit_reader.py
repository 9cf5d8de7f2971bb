"""The edit reader: turns edits of the memory files into changes of the notes.

The people and chats that have notes are read when notes of this process changed, and else rarely: files are looked at
every few seconds without a question to the store.
"""

from collections.abc import Collection, Mapping

from holdfast.kernel import log
from holdfast.kernel.ids import AgentName
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.memory.notes_sql import list_all_subjects
from holdfast.memory.provider import Providers
from holdfast.store.ports import Ports

LOOK_EVERY_MS = 3_000
SUBJECTS_EVERY_MS = 60_000  # another process may have made notes about a new person


class EditReader(Loop):
    name = "edits"

    def __init__(self, ports: Ports, providers: Providers) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._providers = providers
        self._subjects: Mapping[AgentName, Collection[str]] = {}
        self._read_at = -SUBJECTS_EVERY_MS

    async def step(self) -> bool:
        found = [
            (key.agent, getattr(self._providers.get(key), "notice_edits", None)) for key in self._providers.lane_keys()
        ]
        readers = [(agent, notice) for agent, notice in found if notice is not None]
        if readers:
            await self._refresh()
        for agent, notice in readers:
            for noticed in await notice(agent, self._subjects.get(agent, ())):
                log.info("memory.edited", agent=agent, file=noticed.file, fault=noticed.fault)
        return False

    async def _refresh(self) -> None:
        now = self._ports.clock.now()
        if self._ports.notifier.take(Topic.NOTES).anything or not 0 <= now - self._read_at < SUBJECTS_EVERY_MS:
            self._read_at = -SUBJECTS_EVERY_MS  # until the read succeeds
            found: dict[AgentName, list[str]] = {}
            last = AgentName(""), ""
            while page := await self._ports.db.read(list_all_subjects(after=last)):
                for agent, subject in page:
                    found.setdefault(agent, []).append(subject)
                last = page[-1]
            self._subjects, self._read_at = found, now

    async def rest(self) -> None:
        await self._ports.tasks.sleep(LOOK_EVERY_MS)
