"""The routes of finalisations: the progress of extraction from ended epochs, and retrying a failed one."""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, Param, route
from holdfast.api.shapes.finalisations import FinalisationOut, FinalisationsOut, finalisation_view, finalisations_view
from holdfast.audit.action import Act
from holdfast.sessions.finalisation import FinishStep, finish_state
from holdfast.sessions.finalisation_sql import list_finalisations

STATES = [step.value for step in FinishStep]
QUERY = {
    "state": Param("Only those in this state", {"type": "string", "enum": STATES}, parse=finish_state),
    "agent": Param("Only this agent's"),
    "session": Param("Only this session's"),
    "limit": Param("How many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=100),
}


@route("GET /v1/finalisations", Scope.READ, query=QUERY)
async def get_finalisations(call: HttpCall) -> FinalisationsOut:
    """Ended epochs and the progress of their extraction, newest first."""
    return finalisations_view(await call.viewer.whole("finalisations").db.read(list_finalisations(**call.query)))


@route("POST /v1/finalisations/{finalisation}/retry", Scope.OPERATE, status=202, act=Act.FINALISATION_RETRIED)
async def post_retry(call: HttpCall) -> FinalisationOut:
    """Retry an extraction that has no attempts left."""
    return finalisation_view(await call.viewer.whole("finalisations").retry_extraction(call.id("finalisation")))
