"""GET /v1/spend: the cost of models."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import Endpoint, Param, Settings, answer
from holdfast.api.request import QueryParameters
from holdfast.api.shapes.spend import Spending, spending_view
from holdfast.inbox.address import agent_name
from holdfast.kernel.errors import InvalidInput

DAYS_MAX = 366
QUERY = {
    "agent": Param("Only this agent's"),
    "days": Param("So many days up to today (UTC)", {"type": "integer", "minimum": 1, "maximum": DAYS_MAX}),
}


async def get_spend(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, QUERY)
    days = query.number("days", 1, most=DAYS_MAX)
    if days < 1:
        raise InvalidInput("days = 0: it is 1 (today) or more", days=days)
    agent = query.text("agent")
    found = await settings.service.spend(days=days, agent=agent_name(agent) if agent else None)
    return answer(spending_view(found, days))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/spend",
        handler=get_spend,
        scope=Scope.READ,
        summary="The cost of models, by agent, model and task",
        answers={200: Spending},
        query=QUERY,
        errors=(400,),
    ),
)
