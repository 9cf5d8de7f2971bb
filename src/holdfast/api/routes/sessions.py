"""The routes of health, sessions, operations, memory and forgetting. The whole table is in table.py."""

from dataclasses import replace

from msgspec import structs
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import ANY, NUMBER, OPEN, HttpCall, Param, answer, route, state_param
from holdfast.api.request import whole_number
from holdfast.api.shapes import memory, shapes
from holdfast.audit.action import Act
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import DeliveryId, SessionId
from holdfast.memory.delivery import DeliveryState

ROWS_MAX = 1_000
TEXT = {"type": "string", "minLength": 1, "maxLength": 10_000}
HEALTH = {200: shapes.HealthReport, 503: shapes.HealthReport}


def _limit(default: int) -> Param:
    what = f"how many; {default} unless said, at most {ROWS_MAX}"
    return Param(what, NUMBER, default=default, most=ROWS_MAX)


def _wanted(text: str | None) -> str:
    if not text:
        raise InvalidInput("the query parameter q is missing: what should be looked for?")
    return text


def _session(call: HttpCall) -> SessionId:
    return SessionId(call.id("session"))


@route("GET /healthz", OPEN, answers=HEALTH)
async def healthz(call: HttpCall) -> Response:
    """Whether a real write to the store just succeeded."""
    health = await call.viewer.health()  # without a token, only the code of the fault is shown
    return answer(shapes.health_view(replace(health, why=None, wal_bytes=None)), 200 if health.ok else 503)


@route("GET /readyz", ANY, answers=HEALTH)
async def readyz(call: HttpCall) -> Response:
    """Whether messages are accepted: the same test as /healthz, with details of the fault."""
    health = await call.viewer.health()
    return answer(shapes.health_view(health), 200 if health.ok else 503)


@route(
    "GET /v1/sessions",
    Scope.READ,
    query={
        "agent": "only the sessions of this agent",
        "chat": "only the sessions of this chat (of the agent `main`, unless `agent` says otherwise)",
        "after": Param("the last session of the page before", default=""),
        "limit": _limit(100),
    },
    errors=(404,),
)
async def get_sessions(call: HttpCall) -> shapes.Sessions:
    """Sessions, newest first."""
    return shapes.sessions_view(await call.viewer.sessions(**call.query))


@route(
    "GET /v1/sessions/{session}/entries",
    Scope.READ,
    query={"after": Param("the last seq of the page before", NUMBER, default=0), "limit": _limit(200)},
)
async def get_entries(call: HttpCall) -> shapes.Entries:
    """A page of a session's journal."""
    return shapes.entries_view(await call.viewer.history(_session(call), **call.query))


@route("GET /v1/sessions/{session}/context", Scope.READ)
async def get_context(call: HttpCall) -> shapes.SessionContext:
    """The context that the model would get now."""
    return shapes.context_view(await call.viewer.prompt(_session(call)))


@route("GET /v1/sessions/{session}/snapshots/{n}", Scope.READ, path_schemas={"n": NUMBER})
async def get_snapshot(call: HttpCall) -> shapes.Snapshot:
    """The entries and the summary of a compression, named `<session>.snapshot.<n>`."""
    n = whole_number("the snapshot", call.request.path_params["n"])
    return shapes.snapshot_view(*await call.viewer.snapshot(_session(call), n))


@route("POST /v1/sessions/{session}/compress", Scope.OPERATE, status=202, errors=(409,))
async def post_compress(call: HttpCall) -> shapes.OperationStarted:
    """Start a compression in the background; the session keeps its id."""
    return shapes.OperationStarted(operation=(await call.viewer.begin_compression(_session(call))).id)


@route(
    "GET /v1/operations",
    Scope.READ,
    query={
        "session": "only the operations of this session",
        "after": Param("the last operation of the page before", default=""),
        "limit": _limit(100),
    },
)
async def get_operations(call: HttpCall) -> shapes.Operations:
    """Operations, oldest first."""
    return shapes.operations_view(await call.viewer.operations(**call.query))


@route(
    "GET /v1/deliveries",
    Scope.READ,
    query={
        "provider": "only those for this provider",
        "state": state_param("only those in this state", DeliveryState, "delivery state {}"),
        "after": Param("`next` of the page before", NUMBER, default=0),
        "limit": _limit(100),
    },
)
async def get_deliveries(call: HttpCall) -> memory.Deliveries:
    """Deliveries to memory providers, pending and settled, newest first."""
    found = await call.viewer.overview("deliveries").deliveries(**call.query)
    return memory.deliveries_view(found, call.query["limit"])


@route("POST /v1/deliveries/{delivery}/replay", Scope.OPERATE, status=202, act=Act.DELIVERY_REPLAYED)
async def post_replay(call: HttpCall) -> memory.Replayed:
    """Put a parked delivery back on its lane, marked as late."""
    delivery = DeliveryId(call.id("delivery"))
    return memory.Replayed(delivery=delivery, state=await call.viewer.whole("replay").replay(delivery))


@route(
    "GET /v1/recall",
    Scope.READ,
    query={
        "q": Param("what to look for", TEXT, required=True, parse=_wanted),
        "agent": "whose memory; `main` unless said",
        "chat": Param("as if asked in this chat", default=""),
        "sender": "as if asked by this sender; the chat stands for one unless said",
    },
    errors=(404,),
)
async def get_recall(call: HttpCall) -> memory.Memories:
    """Search the agent's memory."""
    asked = dict(call.query)
    return memory.memories_view(await call.viewer.recall(asked.pop("q"), **asked))


@route(
    "POST /v1/forget", Scope.OPERATE, status=202, body=memory.ForgetWish, act=Act.PERSON_FORGOTTEN, errors=(404, 409)
)
async def post_forget(call: HttpCall) -> memory.ForgetReport:
    """Forget a person or a session, here and at every memory provider; pending until each has erased it."""
    return memory.forget_view(await call.viewer.forget(**structs.asdict(call.body)))


@route("GET /v1/forget/{forget}", Scope.READ)
async def get_forget(call: HttpCall) -> memory.ForgetReport:
    """The progress of a request to forget, with its receipts."""
    return memory.forget_view(await call.viewer.forget_status(call.request.path_params["forget"]))
