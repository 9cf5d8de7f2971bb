"""The routes of health, sessions, operations, memory and forgetting. The whole table is in table.py.

A handler reads the request, calls the service once and answers with a shape of api/shapes/shapes.py. It raises its
errors; errors.py has the status of each.
"""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import ANY, OPEN, Endpoint, Param, Settings, answer
from holdfast.api.request import QueryParameters, decode, read_body, whole_number
from holdfast.api.shapes import forget, memory, shapes
from holdfast.audit.action import Act
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import DeliveryId, SessionId
from holdfast.memory.delivery import DeliveryState, delivery_state

__all__ = ["ENDPOINTS", "Endpoint", "Settings", "answer"]

ENTRIES_DEFAULT, ENTRIES_MAX = 200, 1_000
SESSIONS_DEFAULT, SESSIONS_MAX = 100, 1_000
OPERATIONS_DEFAULT, OPERATIONS_MAX = 100, 1_000
DELIVERIES_DEFAULT, DELIVERIES_MAX = 100, 1_000
NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}


# --- handlers --------------------------------------------------------------------------------------


async def healthz(request: Request, settings: Settings) -> Response:
    """The route needs no token, so it answers only whether the server is healthy and the code of the fault."""
    QueryParameters(request, ())
    health = await settings.service.health()
    return answer(shapes.health_view(replace(health, why=None, wal_bytes=None)), 200 if health.ok else 503)


async def readyz(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    health = await settings.service.health()
    return answer(shapes.health_view(health), 200 if health.ok else 503)


async def get_sessions(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, SESSIONS_QUERY)
    found = await settings.service.sessions(
        agent=query.text("agent"),
        chat=query.text("chat"),
        after=query.text("after") or "",
        limit=query.number("limit", SESSIONS_DEFAULT, most=SESSIONS_MAX),
    )
    return answer(shapes.sessions_view(found))


async def get_entries(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, ENTRIES_QUERY)
    found = await settings.service.history(
        _session(request),
        after=query.number("after", 0),
        limit=query.number("limit", ENTRIES_DEFAULT, most=ENTRIES_MAX),
    )
    return answer(shapes.entries_view(found))


async def get_context(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    return answer(shapes.context_view(await settings.service.prompt(_session(request))))


async def get_snapshot(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    n = whole_number("the snapshot", request.path_params["n"])
    summary, covered = await settings.service.snapshot(_session(request), n)
    return answer(shapes.snapshot_view(summary, covered))


async def post_compress(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    operation = await settings.service.begin_compression(_session(request))
    return answer(shapes.OperationStarted(operation=operation.id), 202)


async def get_operations(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, OPERATIONS_QUERY)
    session = query.text("session")
    found = await settings.service.operations(
        session=SessionId(session) if session else None,
        after=query.text("after") or "",
        limit=query.number("limit", OPERATIONS_DEFAULT, most=OPERATIONS_MAX),
    )
    return answer(shapes.operations_view(found))


async def get_deliveries(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, DELIVERIES_QUERY)
    limit = query.number("limit", DELIVERIES_DEFAULT, most=DELIVERIES_MAX)
    found = await settings.service.deliveries(
        provider=query.text("provider"),
        state=delivery_state(query.text("state")),
        after=query.number("after", 0),
        limit=limit,
    )
    return answer(memory.deliveries_view(found, limit))


async def post_replay(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    delivery = DeliveryId(check_part("delivery", request.path_params["delivery"]))
    state = await settings.service.replay(delivery)
    return answer(memory.Replayed(delivery=delivery, state=state), 202)


async def get_recall(request: Request, settings: Settings) -> Response:
    query = QueryParameters(request, RECALL_QUERY)
    text = query.text("q")
    if not text:
        raise InvalidInput("the query parameter q is missing: what should be looked for?")
    found = await settings.service.recall(
        text,
        agent=query.text("agent"),
        chat=query.text("chat") or "",
        sender=query.text("sender"),
    )
    return answer(memory.memories_view(found))


async def post_forget(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    wish = decode(await read_body(request, settings.body_bytes_max), forget.ForgetWish)
    found = await settings.service.forget(session=wish.session, person=wish.person, agent=wish.agent, id=wish.id)
    return answer(forget.forget_view(found), 202)


async def get_forget(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    return answer(forget.forget_view(await settings.service.forget_status(request.path_params["forget"])))


def _session(request: Request) -> SessionId:
    return SessionId(check_part("session", request.path_params["session"]))


# --- the table -------------------------------------------------------------------------------------

SESSIONS_QUERY: dict[str, str | Param] = {
    "agent": "only the sessions of this agent",
    "chat": "only the sessions of this chat (of the agent `main`, unless `agent` says otherwise)",
    "after": "the last session of the page before",
    "limit": Param(f"how many; {SESSIONS_DEFAULT} unless said, at most {SESSIONS_MAX}", NUMBER),
}
ENTRIES_QUERY: dict[str, str | Param] = {
    "after": Param("the last seq of the page before", NUMBER),
    "limit": Param(f"how many; {ENTRIES_DEFAULT} unless said, at most {ENTRIES_MAX}", NUMBER),
}
OPERATIONS_QUERY: dict[str, str | Param] = {
    "session": "only the operations of this session",
    "after": "the last operation of the page before",
    "limit": Param(f"how many; {OPERATIONS_DEFAULT} unless said, at most {OPERATIONS_MAX}", NUMBER),
}
DELIVERIES_QUERY: dict[str, str | Param] = {
    "provider": "only those for this provider",
    "state": Param("only those in this state", {"type": "string", "enum": [state.value for state in DeliveryState]}),
    "after": Param("`next` of the page before", NUMBER),
    "limit": Param(f"how many; {DELIVERIES_DEFAULT} unless said, at most {DELIVERIES_MAX}", NUMBER),
}
RECALL_QUERY: dict[str, str | Param] = {
    "q": Param("what to look for", {"type": "string", "minLength": 1, "maxLength": 10_000}, required=True),
    "agent": "whose memory; `main` unless said",
    "chat": "as if asked in this chat",
    "sender": "as if asked by this sender; the chat stands for one unless said",
}
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/healthz",
        handler=healthz,
        summary="Whether a real write to the store just succeeded",
        answers={200: shapes.HealthReport, 503: shapes.HealthReport},
        scope=OPEN,
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        handler=readyz,
        summary="Whether messages are accepted: the same test as /healthz, with details of the fault",
        answers={200: shapes.HealthReport, 503: shapes.HealthReport},
        scope=ANY,
    ),
    Endpoint(
        method="GET",
        path="/v1/sessions",
        scope=Scope.READ,
        handler=get_sessions,
        summary="Sessions, newest first",
        query=SESSIONS_QUERY,
        answers={200: shapes.Sessions},
        errors=(400, 404),
    ),
    Endpoint(
        method="GET",
        path="/v1/sessions/{session}/entries",
        scope=Scope.READ,
        handler=get_entries,
        summary="A page of a session's journal",
        query=ENTRIES_QUERY,
        answers={200: shapes.Entries},
        errors=(400, 404),
    ),
    Endpoint(
        method="GET",
        path="/v1/sessions/{session}/context",
        scope=Scope.READ,
        handler=get_context,
        summary="The context that the model would get now",
        answers={200: shapes.SessionContext},
        errors=(400, 404),
    ),
    Endpoint(
        method="GET",
        path="/v1/sessions/{session}/snapshots/{n}",
        path_schemas={"n": NUMBER},
        scope=Scope.READ,
        handler=get_snapshot,
        summary="The entries and the summary of a compression, named `<session>.snapshot.<n>`",
        answers={200: shapes.Snapshot},
        errors=(400, 404),
    ),
    Endpoint(
        method="POST",
        path="/v1/sessions/{session}/compress",
        scope=Scope.OPERATE,
        handler=post_compress,
        summary="Start a compression in the background; the session keeps its id",
        answers={202: shapes.OperationStarted},
        errors=(400, 404, 409, 503),
    ),
    Endpoint(
        method="GET",
        path="/v1/operations",
        scope=Scope.READ,
        handler=get_operations,
        summary="Operations, oldest first",
        query=OPERATIONS_QUERY,
        answers={200: shapes.Operations},
        errors=(400,),
    ),
    Endpoint(
        method="GET",
        path="/v1/deliveries",
        scope=Scope.READ,
        handler=get_deliveries,
        summary="Deliveries to memory providers, pending and settled, newest first",
        query=DELIVERIES_QUERY,
        answers={200: memory.Deliveries},
        errors=(400,),
    ),
    Endpoint(
        method="POST",
        path="/v1/deliveries/{delivery}/replay",
        act=Act.DELIVERY_REPLAYED,
        scope=Scope.OPERATE,
        handler=post_replay,
        summary="Put a parked delivery back on its lane, marked as late",
        answers={202: memory.Replayed},
        errors=(400, 404, 503),
    ),
    Endpoint(
        method="GET",
        path="/v1/recall",
        scope=Scope.READ,
        handler=get_recall,
        summary="Search the agent's memory",
        query=RECALL_QUERY,
        answers={200: memory.Memories},
        errors=(400, 404),
    ),
    Endpoint(
        method="POST",
        path="/v1/forget",
        act=Act.PERSON_FORGOTTEN,
        scope=Scope.OPERATE,
        handler=post_forget,
        summary="Forget a person or a session, here and at every memory provider; pending until each has erased it",
        body=forget.ForgetWish,
        answers={202: forget.ForgetReport},
        errors=(400, 404, 408, 409, 413, 503),
    ),
    Endpoint(
        method="GET",
        path="/v1/forget/{forget}",
        scope=Scope.READ,
        handler=get_forget,
        summary="The progress of a request to forget, with its receipts",
        answers={200: forget.ForgetReport},
        errors=(400, 404),
    ),
)
