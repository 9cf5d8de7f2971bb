"""The part of the store that keeps the ledger of replies."""

from collections.abc import Collection, Mapping, Sequence

from holdfast.kernel.ids import AgentName, Instant, NodeId, ReplyId
from holdfast.outbox import reply_sql
from holdfast.outbox.post import OnDoubt
from holdfast.outbox.reply import Kept, ReplyClaim, ReplySettlement
from holdfast.store.database import Database
from holdfast.store.protocols.reply_store import PostedReply
from holdfast.store.verbs.action_verbs import ActionVerbs
from holdfast.store.verbs.draft_verbs import DraftVerbs


class ReplyVerbs(DraftVerbs, ActionVerbs):
    """Implements the ports `ReplyStore` and `ReplyReader`, and with its drafts `DraftStore`."""

    _db: Database

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
        return await self._db.write(
            "claim_replies",
            lambda: reply_sql.claim_replies(
                node, agent, channel, name, limit=limit, on_doubt=on_doubt, resting=resting
            ),
            name=name,
        )

    async def settle_reply(self, claim: ReplyClaim, settlement: ReplySettlement) -> Kept:
        return await self._db.write("settle_reply", lambda: reply_sql.settle_reply(claim, settlement))

    async def next_reply_due(self) -> Mapping[tuple[AgentName, str], Instant]:
        return await self._db.read("next_reply_due", reply_sql.next_reply_due)

    async def resend_reply(self, reply: ReplyId) -> str:
        return await self._act("resend_reply", lambda by: reply_sql.resend_reply(reply, by))

    async def reply(self, reply: ReplyId) -> PostedReply:
        return await self._db.read("reply", lambda: reply_sql.read_reply(reply))

    async def replies(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[PostedReply]:
        return await self._db.read("replies", lambda: reply_sql.list_replies(state, agent, channel, after, limit))
