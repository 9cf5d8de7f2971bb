"""The route of the audit trail. A token that names agents does not see it: most acts concern every agent."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import Endpoint, Param, Settings, answer
from holdfast.api.request import QueryParameters
from holdfast.api.shapes.actions import ActionList, actions_view
from holdfast.audit.action import BY_NAME, ActionFilter, act_named
from holdfast.kernel.ids import Instant

LIMIT_DEFAULT, LIMIT_MAX = 100, 1_000
QUERY: dict[str, str | Param] = {
    "actor": "only what this actor did: a token's id, `operator`, a principal or a user of the machine",
    "verb": Param("only acts of this kind", {"type": "string", "enum": sorted(BY_NAME)}),
    "subject": "only what was done to this: an id, as a row shows it",
    "since": Param("only from this time on, in milliseconds", {"type": "integer", "minimum": 0}),
    "after": Param("`next` of the page before", {"type": "integer", "minimum": 0}),
    "limit": Param("how many at most", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}),
}


async def get_actions(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, QUERY)
    limit = query.number("limit", LIMIT_DEFAULT, most=LIMIT_MAX)
    wanted = ActionFilter(
        actor=query.text("actor") or "",
        act=act_named(query.text("verb")),
        subject=query.text("subject") or "",
        since=Instant(query.number("since", 0)),
    )
    found = await settings.service.actions.list(wanted, after=query.number("after", 0), limit=limit)
    return answer(actions_view(found, limit))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/actions",
        handler=get_actions,
        scope=Scope.ADMIN,
        summary="The audit trail: actor, act, subject, time and origin, newest first",
        query=QUERY,
        answers={200: ActionList},
        errors=(400,),
    ),
)
