"""The desk of replies: lists the ledger, and sends again what somebody asks for."""

from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.ids import ReplyId
from holdfast.kernel.notifier_port import Notifier, Topic
from holdfast.store.protocols.reply_store import PostedReply, ReplyReader, ReplyStore


class ReplyDesk:
    """Implements `Replies`."""

    def __init__(self, store: ReplyStore, reader: ReplyReader, notifier: Notifier) -> None:
        self._store = store
        self._reader = reader
        self._notifier = notifier

    async def list(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[PostedReply]:
        return await self._reader.replies(state=state, agent=agent, channel=channel, after=after, limit=limit)

    async def find(self, reply: ReplyId) -> PostedReply:
        return await self._reader.reply(reply)

    async def resend(self, reply: ReplyId) -> PostedReply:
        state = await self._store.resend_reply(reply)
        log.info("reply.resent", reply=reply, state=state)
        self._notifier.wake(Topic.REPLY)
        return await self._reader.reply(reply)
