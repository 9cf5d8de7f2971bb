"""What an operator looks at: the status, lists and timelines of messages, numbers for charts, and processes.

The scope `metrics` reads numbers and states. Whatever people wrote, and who they are, needs the scope `read`.
"""

from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import PRIVATE, HttpCall, Param, route, state_param
from holdfast.api.gauges import Present
from holdfast.api.metrics import MEDIA_TYPE
from holdfast.api.shapes import status as shapes
from holdfast.inbox.message import MessageState
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import Instant, MessageId
from holdfast.monitor.component_needs import component_needs
from holdfast.monitor.message_list import MessageFilter
from holdfast.monitor.node_run_sql import list_node_runs
from holdfast.monitor.sample import SampleSpan
from holdfast.monitor.sample_sql import count_sample_holes
from holdfast.monitor.status_sql import read_status
from holdfast.monitor.status_view import with_needs
from holdfast.monitor.timeline import timeline
from holdfast.store.damage import CheckedEngine

TIME = {"type": "integer", "minimum": 0}
TEXT = {"type": "string", "maxLength": 1_000}
CHARTED = {SampleSpan.MINUTE: 3_600_000, SampleSpan.HOUR: 86_400_000}  # how far back, unless said
MESSAGES: dict[str, str | Param] = {
    "agent": Param("only this agent's", default=""),
    "chat": Param("only those of this conversation", default=""),
    "sender": Param("only those of this principal", default=""),
    "state": state_param("only those in this state", MessageState, "message state {}"),
    "text": Param("only those with this text, in upper or lower case", TEXT, default=""),
    "own_id": Param("only those whose own id begins so", default=""),
    "since": Param("only those accepted from then on, in milliseconds", TIME),
    "until": Param("only those accepted until then, in milliseconds", TIME),
    "before": Param("`next` of the page before", default=""),
    "limit": Param("how many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=50),
}


def _span(text: str) -> SampleSpan:
    known = {span.value: span for span in SampleSpan}
    if text not in known:
        raise InvalidInput(f"there is no span {text[:40]!r}; there are {', '.join(known)}", span=text[:40])
    return known[text]


@route("GET /v1/status", Scope.METRICS)
async def get_status(call: HttpCall) -> shapes.StatusReport:
    """What needs a person, what is stuck, and what waits."""
    overview = call.viewer.overview("status")
    status, components = await overview.status(), overview.components()
    return shapes.status_view(status, await call.viewer.health(), call.viewer.agents(), components)


@route("GET /metrics", Scope.METRICS, media_type="text/plain")
async def get_metrics(call: HttpCall) -> Response:
    """Prometheus metrics."""
    runtime = call.viewer.whole("metrics")
    components = runtime.components()
    found = await runtime.db.read(read_status())
    engine = runtime.db if isinstance(runtime.db, CheckedEngine) else None
    present = Present(
        status=with_needs(found, component_needs(components)),
        health=await runtime.health(),
        components=components,
        servers=runtime.tool_servers(),
        sample_holes=await runtime.db.read(count_sample_holes()),
        measures=engine.measures if engine is not None else None,
        free_bytes=engine.free_bytes() if engine is not None else None,
    )
    return Response(call.settings.metrics.render(present), media_type=MEDIA_TYPE, headers=PRIVATE)


@route("GET /v1/messages", Scope.READ, query=MESSAGES)
async def get_messages(call: HttpCall) -> shapes.MessageList:
    """Messages, newest first."""
    asked = dict(call.query)
    before, limit = asked.pop("before"), asked.pop("limit")
    wanted = MessageFilter(**{**asked, "state": asked["state"] or ""})
    found = await call.viewer.overview("messages").messages(wanted, before=before, limit=limit)
    return shapes.messages_view(found)


@route("GET /v1/messages/{message}/timeline", Scope.READ)
async def get_timeline(call: HttpCall) -> shapes.TimelineOut:
    """What happened to a message, step by step, with times."""
    facts = await call.viewer.timeline(MessageId(call.id("message")))
    return shapes.timeline_view(facts, timeline(facts))


@route(
    "GET /v1/samples",
    Scope.METRICS,
    query={
        "span": Param(
            "`minute` or `hour`",
            {"type": "string", "enum": [one.value for one in SampleSpan]},
            default="minute",
            parse=_span,
        ),
        "since": Param("from then on, in milliseconds; otherwise the last hour of minutes, or day of hours", TIME),
    },
)
async def get_samples(call: HttpCall) -> shapes.Samples:
    """What was counted in each minute or hour, for charts."""
    span, since = call.query["span"], call.query["since"]
    overview = call.viewer.overview("samples")
    start = Instant(since if since is not None else overview.now - CHARTED[span])
    return shapes.samples_view(span, start, await overview.samples(span, start))


@route(
    "GET /v1/nodes",
    Scope.METRICS,
    query={
        "since": Param("only those that began from then on, in milliseconds", TIME, default=0),
        "limit": Param("how many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=100),
    },
)
async def get_nodes(call: HttpCall) -> shapes.NodeList:
    """The processes that serve or served the store, and how each ended."""
    return shapes.nodes_view(await call.viewer.whole("processes").db.read(list_node_runs(**call.query)))
