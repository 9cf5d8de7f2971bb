"""What an operator watches and decides: approvals, replies, extractions from ended epochs, costs, and connections.

An approval is a tool call that waits for a human. A connection of this process leads to the platform of a bot account,
or to an MCP server.
"""

from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, Param, answer, route, state_param
from holdfast.api.shapes import monitoring as shapes
from holdfast.audit.action import Act
from holdfast.kernel.errors import InvalidInput, RobotRefused
from holdfast.kernel.ids import ApprovalId, ReplyId
from holdfast.outbox.post import ReplyState
from holdfast.sessions.finalisation import FinishStep
from holdfast.sessions.finalisation_sql import list_finalisations

LIMIT = Param("How many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=100)
APPROVAL_STATES = ("open", "all")
REPLIES = {
    "state": state_param("Only those in this state", ReplyState, "reply state {}"),
    "agent": Param("Only this agent's"),
    "channel": Param("Only those of this channel"),
    "after": Param("`next` of the page before", {"type": "integer", "minimum": 0}, default=0),
    "limit": LIMIT,
}
EXTRACTIONS = {
    "state": state_param("Only those in this state", FinishStep, "state {} of a finalisation"),
    "agent": Param("Only this agent's"),
    "session": Param("Only this session's"),
    "limit": LIMIT,
}
SPEND = {
    "agent": Param("Only this agent's"),
    "days": Param("So many days up to today (UTC)", {"type": "integer", "minimum": 1, "maximum": 366}, default=1),
}
OF_AGENT = {"agent": "only this agent's"}


def _approval_state(given: str) -> str:
    if given not in APPROVAL_STATES:
        raise InvalidInput(f"state = {given[:40]!r}: it is one of {', '.join(APPROVAL_STATES)}", state=given[:40])
    return given


APPROVALS = {
    "state": Param(
        "`open` (the default), or `all` for decided ones too",
        {"type": "string", "enum": list(APPROVAL_STATES)},
        default="open",
        parse=_approval_state,
    ),
    "limit": LIMIT,
}


@route("GET /v1/approvals", Scope.READ, query=APPROVALS)
async def get_approvals(call: HttpCall) -> shapes.ApprovalList:
    """Tool calls that wait for a human."""
    is_all = call.query["state"] == "all"
    return shapes.approvals_view(await call.viewer.approvals(decided=is_all, limit=call.query["limit"]))


@route("GET /v1/approvals/{approval}", Scope.READ)
async def get_approval(call: HttpCall) -> shapes.WholeApproval:
    """One tool call that waits or waited for a human, with all of its arguments and their digest."""
    return shapes.whole_approval_view(await call.viewer.approval(ApprovalId(call.id("approval"))))


@route(
    "POST /v1/approvals/{approval}",
    Scope.OPERATE,
    answers={200: shapes.PendingApproval, 409: shapes.PendingApproval},
    body=shapes.ApprovalDecision,
    act=Act.APPROVAL_DECIDED,
    errors=(409, 422),
)
async def post_approval(call: HttpCall) -> Response:
    """Approve or deny a tool call; 409 with its state if it was decided otherwise or the decision is too late, 409 with
    `approval_changed` or `approval_digest_needed` if the digest is wrong or missing.
    """
    approval, said = ApprovalId(call.id("approval")), call.body
    if call.caller.token.robot:
        raise RobotRefused("an approval is a person's decision; this token was made with --robot")
    wanted = shapes.DECISIONS[said.decision]
    found = await call.viewer.decide(approval, wanted, reason=said.reason, digest=said.digest)
    return answer(shapes.approval_view(found), 200 if found.decision is wanted else 409)


@route("GET /v1/replies", Scope.READ, query=REPLIES)
async def get_replies(call: HttpCall) -> shapes.OutgoingReplies:
    """Replies to platforms, pending and settled, newest first."""
    return shapes.replies_view(await call.viewer.overview("replies").replies(**call.query), call.query["limit"])


@route("POST /v1/replies/{reply}/resend", Scope.OPERATE, status=202, act=Act.REPLY_RESENT)
async def post_resend(call: HttpCall) -> shapes.OutgoingReply:
    """Resend an uncertain or failed reply; the platform may then show it twice."""
    return shapes.reply_view(await call.viewer.overview("replies").resend(ReplyId(call.id("reply"))))


@route("GET /v1/finalisations", Scope.READ, query=EXTRACTIONS)
async def get_finalisations(call: HttpCall) -> shapes.FinalisationsOut:
    """Ended epochs and the progress of their extraction, newest first."""
    return shapes.finalisations_view(await call.viewer.whole("finalisations").db.read(list_finalisations(**call.query)))


@route("POST /v1/finalisations/{finalisation}/retry", Scope.OPERATE, status=202, act=Act.FINALISATION_RETRIED)
async def post_retry(call: HttpCall) -> shapes.FinalisationOut:
    """Retry an extraction that has no attempts left."""
    return shapes.finalisation_view(await call.viewer.whole("finalisations").retry_extraction(call.id("finalisation")))


@route("GET /v1/spend", Scope.READ, query=SPEND)
async def get_spend(call: HttpCall) -> shapes.Spending:
    """The cost of models, by agent, model and task."""
    return shapes.spending_view(await call.viewer.overview("spend").spend(**call.query), call.query["days"])


@route("GET /v1/channels", Scope.READ, query=OF_AGENT)
async def get_channels(call: HttpCall) -> shapes.ChannelStandings:
    """The bot accounts of this process: the state of each connection, its time and its reason."""
    found = call.viewer.overview("channels").channels()
    return shapes.ChannelStandings(channels=[one for one in found if call.query["agent"] in {None, one.agent}])


@route("GET /v1/tools", Scope.READ, query=OF_AGENT)
async def get_tools(call: HttpCall) -> shapes.ToolServers:
    """The MCP servers of this process: the state of each connection, its time, its reason and its tools."""
    found = call.viewer.overview("tool_servers").tool_servers()
    return shapes.ToolServers(servers=[one for one in found if call.query["agent"] in {None, one.agent}])
