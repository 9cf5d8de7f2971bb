"""The routes of replies: answers that are sent to a platform, for an operator to read and resend."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.endpoint import Endpoint, Param, Settings, answer
from holdfast.api.request import QueryParameters
from holdfast.api.shapes.replies import OutgoingReplies, OutgoingReply, replies_view, reply_view
from holdfast.audit.action import Act
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import ReplyNotFound
from holdfast.kernel.ids import ReplyId
from holdfast.outbox.post import ReplyState
from holdfast.outbox.replies import Replies
from holdfast.outbox.reply import PostedReply, reply_state

REPLIES_DEFAULT, REPLIES_MAX = 100, 1_000
QUERY = {
    "state": Param("Only those in this state", {"type": "string", "enum": [state.value for state in ReplyState]}),
    "agent": Param("Only this agent's"),
    "channel": Param("Only those of this channel"),
    "after": Param("`next` of the page before", {"type": "integer", "minimum": 0}),
    "limit": Param("How many at most", {"type": "integer", "minimum": 1, "maximum": REPLIES_MAX}),
}


class AgentScopedReplies:
    """Implements `Replies` for a token that names agents; replies of other agents do not exist."""

    def __init__(self, inner: Replies, token: AccessToken) -> None:
        self._inner = inner
        self._token = token

    async def list(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[PostedReply]:
        wanted = sorted(self._token.agents) if agent is None else [name for name in [agent] if self._token.sees(name)]
        found: list[PostedReply] = []
        for name in wanted:
            found += await self._inner.list(state=state, agent=name, channel=channel, after=after, limit=limit)
        return sorted(found, key=lambda one: one.n, reverse=True)[:limit]

    async def find(self, reply: ReplyId) -> PostedReply:
        found = await self._inner.find(reply)
        if not self._token.sees(found.agent):
            raise ReplyNotFound(f"there is no reply {reply[:80]!r}", reply=reply[:80])
        return found

    async def resend(self, reply: ReplyId) -> PostedReply:
        await self.find(reply)
        return await self._inner.resend(reply)


async def get_replies(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, QUERY)
    limit = query.number("limit", REPLIES_DEFAULT, most=REPLIES_MAX)
    found = await settings.service.replies.list(
        state=reply_state(query.text("state")),
        agent=query.text("agent"),
        channel=query.text("channel"),
        after=query.number("after", 0),
        limit=limit,
    )
    return answer(replies_view(found, limit))


async def post_resend(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    reply = ReplyId(check_part("reply", request.path_params["reply"]))
    return answer(reply_view(await settings.service.replies.resend(reply)), 202)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/replies",
        handler=get_replies,
        scope=Scope.READ,
        summary="Replies to platforms, pending and settled, newest first",
        query=QUERY,
        answers={200: OutgoingReplies},
        errors=(400,),
    ),
    Endpoint(
        method="POST",
        path="/v1/replies/{reply}/resend",
        act=Act.REPLY_RESENT,
        handler=post_resend,
        scope=Scope.OPERATE,
        summary="Resend an uncertain or failed reply; the platform may then show it twice",
        answers={202: OutgoingReply},
        errors=(400, 404, 503),
    ),
)
