"""The change poller: wakes the loops of this process after another process has written (D29)."""

from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.store.ports import Ports

LOOK_EVERY_MS = 1_000


class ChangePoller(Loop):
    """Polls the store, because this process's notifier does not see other processes' writes."""

    name = "lookout"

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports.tasks, ports.entropy)
        self._ports = ports

    async def step(self) -> bool:
        if await self._ports.db.changed():
            for topic in (Topic.MAIL, Topic.DELIVERY, Topic.REPLY):
                self._ports.notifier.wake(topic)
        return False

    async def rest(self) -> None:
        await self._ports.tasks.sleep(LOOK_EVERY_MS)
