"""The edit reader: turns edits of the memory files into changes of the notes."""

from holdfast.kernel import log
from holdfast.kernel.loop import Loop
from holdfast.memory.notes_service import all_subjects
from holdfast.memory.providers import Providers
from holdfast.store.ports import Ports

LOOK_EVERY_MS = 3_000


class EditReader(Loop):
    name = "edits"

    def __init__(
        self,
        ports: Ports,
        providers: Providers,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports
        self._providers = providers

    async def step(self) -> bool:
        for key in self._providers.lane_keys():
            notice = getattr(self._providers.get(key), "notice_edits", None)
            if notice is None:
                continue
            for noticed in await notice(key.agent, await all_subjects(self._ports.db, key.agent)):
                log.info("memory.edited", agent=key.agent, file=noticed.file, fault=noticed.fault)
        return False

    async def rest(self) -> None:
        await self._ports.tasks.sleep(LOOK_EVERY_MS)
