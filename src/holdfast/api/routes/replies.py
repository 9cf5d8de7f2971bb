"""The routes of replies: answers that are sent to a platform, for an operator to read and resend."""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, Param, route
from holdfast.api.shapes.monitoring import OutgoingReplies, OutgoingReply, replies_view, reply_view
from holdfast.audit.action import Act
from holdfast.kernel.ids import ReplyId
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import reply_state

STATES = [state.value for state in ReplyState]
QUERY = {
    "state": Param("Only those in this state", {"type": "string", "enum": STATES}, parse=reply_state),
    "agent": Param("Only this agent's"),
    "channel": Param("Only those of this channel"),
    "after": Param("`next` of the page before", {"type": "integer", "minimum": 0}, default=0),
    "limit": Param("How many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=100),
}


@route("GET /v1/replies", Scope.READ, query=QUERY)
async def get_replies(call: HttpCall) -> OutgoingReplies:
    """Replies to platforms, pending and settled, newest first."""
    return replies_view(await call.viewer.overview("replies").replies(**call.query), call.query["limit"])


@route("POST /v1/replies/{reply}/resend", Scope.OPERATE, status=202, act=Act.REPLY_RESENT)
async def post_resend(call: HttpCall) -> OutgoingReply:
    """Resend an uncertain or failed reply; the platform may then show it twice."""
    return reply_view(await call.viewer.overview("replies").resend(ReplyId(call.id("reply"))))
