"""The ledger of replies, as the store keeps it (D26). Part of the ports `Store` and `Reader`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.kernel.ids import AgentName, Instant, NodeId, ReplyId
from holdfast.outbox.post import OnDoubt
from holdfast.outbox.reply import Kept, ReplyClaim, ReplySettlement


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedReply:
    """One row of the ledger, without its words."""

    n: int
    id: str
    agent: str
    channel: str
    address: str
    message: str
    state: str
    attempt: int
    parts_sent: int
    possible_duplicate: bool  # the platform may show some piece of it twice
    at: Instant
    due_at: Instant | None
    receipt: str | None
    reason: str | None
    draft: str | None = None  # what became of the draft that was shown before it, if there was one (`DraftFate`)


class ReplyStore(Protocol):
    async def claim_replies(
        self,
        node: NodeId,
        agent: AgentName,
        channel: str,
        *,
        name: str,
        limit: int,
        on_doubt: OnDoubt = OnDoubt.RESEND,
        resting: Collection[str] = (),
    ) -> tuple[ReplyClaim, ...]:
        """Take the first due reply of each address, one at most of a chat, none of a chat that rests.

        Each is `attempting` when this returns.

        Asked again under the same name, after an answer that was lost, the store gives the same replies. A reply
        that may have been posted is not given where the policy is to hold it; it is uncertain then.
        """
        ...

    async def settle_reply(self, claim: ReplyClaim, settlement: ReplySettlement) -> Kept:
        """Make what came of a piece durable.

        A claim that is void (its node was taken for dead, its words were deleted) changes nothing.
        """
        ...

    async def next_reply_due(self) -> Mapping[tuple[AgentName, str], Instant]:
        """When the next reply of each (agent, channel) is due; those without one are left out."""
        ...

    async def resend_reply(self, reply: ReplyId) -> str:
        """Send an uncertain or failed reply again; its state now. Raises `ReplyNotFound`, `InvalidInput`.

        It goes on with the piece that was not posted for certain, or begins anew if all were, some perhaps twice.
        """
        ...


class ReplyReader(Protocol):
    async def reply(self, reply: ReplyId) -> PostedReply:
        """Raises `ReplyNotFound`."""
        ...

    async def replies(
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
