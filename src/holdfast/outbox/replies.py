"""The replies service: lists the ledger and resends a reply on request."""

from collections.abc import Sequence

from holdfast.audit.actor import acting
from holdfast.inbox.address import parse
from holdfast.inbox.channels import ChannelKey
from holdfast.kernel import log
from holdfast.kernel.ids import ReplyId
from holdfast.kernel.notifier import Notifier, Topic
from holdfast.outbox.post import PULLED
from holdfast.outbox.reply import PostedReply
from holdfast.outbox.reply_sql import list_replies, read_reply, resend_reply
from holdfast.store.ports import Ports


def wake_sender(notifier: Notifier, address: str) -> None:
    """Announce a reply to an address. A reader that fetches its replies needs no sender."""
    found = parse(address)
    if found.channel not in PULLED:
        notifier.wake(Topic.REPLY, ChannelKey(found.agent, found.channel))


class Replies:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def list(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[PostedReply]:
        return await self._ports.db.read(
            list_replies(state=state, agent=agent, channel=channel, after=after, limit=limit)
        )

    async def find(self, reply: ReplyId) -> PostedReply:
        return await self._ports.db.read(read_reply(reply))

    async def resend(self, reply: ReplyId) -> PostedReply:
        state = await self._ports.db.write(resend_reply(reply, by=acting()))
        log.info("reply.resent", reply=reply, state=state)
        self._ports.notifier.wake(Topic.REPLY)
        return await self._ports.db.read(read_reply(reply))
