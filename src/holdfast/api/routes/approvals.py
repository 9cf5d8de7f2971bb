"""The routes of approvals: tool calls that wait for a human, for an operator to read and decide."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.endpoint import Endpoint, Param, Settings, answer, caller_of
from holdfast.api.request import QueryParameters, decode, read_body
from holdfast.api.shapes.approvals import (
    DECISIONS,
    ApprovalDecision,
    ApprovalList,
    PendingApproval,
    WholeApproval,
    approval_view,
    approvals_view,
    whole_approval_view,
)
from holdfast.audit.action import Act
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import ApprovalNotFound, InvalidInput, RobotRefused
from holdfast.kernel.ids import ApprovalId
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.approvals import Approvals

APPROVALS_DEFAULT, APPROVALS_MAX = 100, 1_000
STATES = ("open", "all")
QUERY = {
    "state": Param("`open` (the default), or `all` for decided ones too", {"type": "string", "enum": list(STATES)}),
    "limit": Param("How many at most", {"type": "integer", "minimum": 1, "maximum": APPROVALS_MAX}),
}


class AgentScopedApprovals:
    """Implements `Approvals` for a token that names agents; approvals of other agents do not exist."""

    def __init__(self, inner: Approvals, token: AccessToken) -> None:
        self._inner = inner
        self._token = token

    async def list(
        self, *, decided: bool = False, agent: str | None = None, limit: int = 100
    ) -> Sequence[ApprovalView]:
        """Query each agent separately, so that approvals of other agents do not use up the limit."""
        wanted = sorted(self._token.agents) if agent is None else [name for name in [agent] if self._token.sees(name)]
        found: list[ApprovalView] = []
        for name in wanted:
            found += await self._inner.list(decided=decided, agent=name, limit=limit)
        return sorted(found, key=lambda one: (one.asked_at, one.id), reverse=decided)[:limit]

    async def find(self, approval: ApprovalId) -> ApprovalView:
        found = await self._inner.find(approval)
        if not self._token.sees(found.agent):
            raise ApprovalNotFound(f"there is no approval {approval[:40]!r}", approval=approval[:40])
        return found

    async def decide(
        self, approval: ApprovalId, decision: Decision, *, by: str = "operator", reason: str = "", digest: str = ""
    ) -> ApprovalView:
        await self.find(approval)
        return await self._inner.decide(approval, decision, by=by, reason=reason, digest=digest)


async def get_approvals(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, QUERY)
    state = query.text("state") or "open"
    if state not in STATES:
        raise InvalidInput(f"state = {state[:40]!r}: it is one of {', '.join(STATES)}", state=state[:40])
    limit = query.number("limit", APPROVALS_DEFAULT, most=APPROVALS_MAX)
    return answer(approvals_view(await settings.service.approvals.list(decided=state == "all", limit=limit)))


async def get_approval(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    approval = ApprovalId(check_part("approval", request.path_params["approval"]))
    return answer(whole_approval_view(await settings.service.approvals.find(approval)))


async def post_approval(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    approval = ApprovalId(check_part("approval", request.path_params["approval"]))
    said = decode(await read_body(request, settings.body_bytes_max), ApprovalDecision)
    token = caller_of(request).token
    if token.robot:
        raise RobotRefused("an approval is a person's decision; this token was made with --robot")
    found = await settings.service.approvals.decide(
        approval, DECISIONS[said.decision], by=f"token:{token.id}", reason=said.reason, digest=said.digest
    )
    return answer(approval_view(found), 200 if found.decision is DECISIONS[said.decision] else 409)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/approvals",
        handler=get_approvals,
        scope=Scope.READ,
        summary="Tool calls that wait for a human",
        answers={200: ApprovalList},
        query=QUERY,
        errors=(400,),
    ),
    Endpoint(
        method="GET",
        path="/v1/approvals/{approval}",
        handler=get_approval,
        scope=Scope.READ,
        summary="One tool call that waits or waited for a human, with all of its arguments and their digest",
        answers={200: WholeApproval},
        errors=(400, 404),
    ),
    Endpoint(
        method="POST",
        path="/v1/approvals/{approval}",
        act=Act.APPROVAL_DECIDED,
        handler=post_approval,
        scope=Scope.OPERATE,
        summary=(
            "Approve or deny a tool call; 409 with its state if it was decided otherwise or the decision is too late, "
            "409 with `approval_changed` or `approval_digest_needed` if the digest is wrong or missing"
        ),
        answers={200: PendingApproval, 409: PendingApproval},
        body=ApprovalDecision,
        errors=(400, 404, 409, 413, 422),
    ),
)
