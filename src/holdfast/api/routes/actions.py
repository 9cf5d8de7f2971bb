"""The route of the audit trail. A token that names agents does not see it: most acts concern every agent."""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, Param, route
from holdfast.api.shapes.audit import ActionList, actions_view
from holdfast.audit.action import BY_NAME, ActionFilter, act_named
from holdfast.kernel.ids import Instant

QUERY: dict[str, str | Param] = {
    "actor": Param(
        "only what this actor did: a token's id, `operator`, a principal or a user of the machine", default=""
    ),
    "verb": Param("only acts of this kind", {"type": "string", "enum": sorted(BY_NAME)}, parse=act_named),
    "subject": Param("only what was done to this: an id, as a row shows it", default=""),
    "since": Param("only from this time on, in milliseconds", {"type": "integer", "minimum": 0}, default=0),
    "after": Param("`next` of the page before", {"type": "integer", "minimum": 0}, default=0),
    "limit": Param("how many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=100),
}


@route("GET /v1/actions", Scope.ADMIN, query=QUERY)
async def get_actions(call: HttpCall) -> ActionList:
    """The audit trail: actor, act, subject, time and origin, newest first."""
    asked = call.query
    wanted = ActionFilter(
        actor=asked["actor"], act=asked["verb"], subject=asked["subject"], since=Instant(asked["since"])
    )
    found = await call.viewer.whole("actions").actions.list(wanted, after=asked["after"], limit=asked["limit"])
    return actions_view(found, asked["limit"])
