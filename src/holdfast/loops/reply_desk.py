"""What a person may do about replies: the part of the library's face that works on the ledger."""

from holdfast.core.ids import ReplyId
from holdfast.ports.notifier import Notifier, Topic
from holdfast.ports.store import Store


class ReplyDesk:
    store: Store
    _notifier: Notifier

    async def resend(self, reply: str) -> str:
        """Send an uncertain or failed reply again; its state now. Raises `ReplyNotFound`, `InvalidInput`."""
        state = await self.store.resend_reply(ReplyId(reply))
        self._notifier.wake(Topic.REPLY)
        return state
