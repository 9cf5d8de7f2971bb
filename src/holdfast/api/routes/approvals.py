"""The routes of approvals: tool calls that wait for a human, for an operator to read and decide."""

from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, Param, answer, route
from holdfast.api.shapes import approvals as shapes
from holdfast.audit.action import Act
from holdfast.kernel.errors import InvalidInput, RobotRefused
from holdfast.kernel.ids import ApprovalId

STATES = ("open", "all")


def _state(given: str) -> str:
    if given not in STATES:
        raise InvalidInput(f"state = {given[:40]!r}: it is one of {', '.join(STATES)}", state=given[:40])
    return given


QUERY = {
    "state": Param(
        "`open` (the default), or `all` for decided ones too",
        {"type": "string", "enum": list(STATES)},
        default="open",
        parse=_state,
    ),
    "limit": Param("How many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=100),
}


@route("GET /v1/approvals", Scope.READ, query=QUERY)
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
