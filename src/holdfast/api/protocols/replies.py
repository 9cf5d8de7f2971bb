"""The desk of replies: what an operator may ask about answers on their way to a platform, and do about them."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.kernel.ids import ReplyId
from holdfast.store.protocols.reply_store import PostedReply


class Replies(Protocol):
    async def list(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[PostedReply]:
        """Newest first; `after` is the `n` of the last one of the page before."""
        ...

    async def find(self, reply: ReplyId) -> PostedReply:
        """Raises `ReplyNotFound`."""
        ...

    async def resend(self, reply: ReplyId) -> PostedReply:
        """Send an uncertain or failed one again; as it is afterwards. Raises `ReplyNotFound`, `InvalidInput`."""
        ...
