"""GET /v1/spend: the cost of models."""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, Param, route
from holdfast.api.shapes.spend import Spending, spending_view

QUERY = {
    "agent": Param("Only this agent's"),
    "days": Param("So many days up to today (UTC)", {"type": "integer", "minimum": 1, "maximum": 366}, default=1),
}


@route("GET /v1/spend", Scope.READ, query=QUERY)
async def get_spend(call: HttpCall) -> Spending:
    """The cost of models, by agent, model and task."""
    return spending_view(await call.viewer.overview("spend").spend(**call.query), call.query["days"])
