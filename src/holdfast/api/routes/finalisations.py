"""The routes of finalisations: the progress of extraction from ended epochs, and retrying a failed one."""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import Endpoint, Param, Settings, answer
from holdfast.api.request import QueryParameters
from holdfast.api.shapes.finalisations import FinalisationOut, FinalisationsOut, finalisation_view, finalisations_view
from holdfast.audit.action import Act
from holdfast.inbox.address import check_part
from holdfast.kernel.ids import SessionId
from holdfast.sessions.finalisation import FinishStep, finish_state

FINALISATIONS_DEFAULT, FINALISATIONS_MAX = 100, 1_000
QUERY = {
    "state": Param("Only those in this state", {"type": "string", "enum": [step.value for step in FinishStep]}),
    "agent": Param("Only this agent's"),
    "session": Param("Only this session's"),
    "limit": Param("How many at most", {"type": "integer", "minimum": 1, "maximum": FINALISATIONS_MAX}),
}


async def get_finalisations(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, QUERY)
    session = query.text("session")
    found = await settings.service.finalisations.list(
        session=None if session is None else SessionId(check_part("session", session)),
        agent=query.text("agent"),
        state=finish_state(query.text("state")),
        limit=query.number("limit", FINALISATIONS_DEFAULT, most=FINALISATIONS_MAX),
    )
    return answer(finalisations_view(found))


async def post_retry(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    id_ = check_part("finalisation", request.path_params["finalisation"])
    return answer(finalisation_view(await settings.service.finalisations.retry(id_)), 202)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/finalisations",
        handler=get_finalisations,
        scope=Scope.READ,
        summary="Ended epochs and the progress of their extraction, newest first",
        query=QUERY,
        answers={200: FinalisationsOut},
        errors=(400,),
    ),
    Endpoint(
        method="POST",
        path="/v1/finalisations/{finalisation}/retry",
        act=Act.FINALISATION_RETRIED,
        handler=post_retry,
        scope=Scope.OPERATE,
        summary="Retry an extraction that has no attempts left",
        answers={202: FinalisationOut},
        errors=(400, 404, 503),
    ),
)
