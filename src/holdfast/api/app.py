"""The ASGI application: guard, route, handler. Every error is answered as JSON of one shape."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Message, Receive, Scope, Send

from holdfast.api import errors, openapi
from holdfast.api.auth.access_token import Scope as TokenScope
from holdfast.api.auth.caller import Caller, Keyring
from holdfast.api.auth.guard import Guard, Names
from holdfast.api.auth.logins import Logins, clear_cookie
from holdfast.api.auth.viewer import Viewer
from holdfast.api.endpoint import Endpoint, HttpCall, Settings, answer
from holdfast.api.limits.admission import Admission, Requester
from holdfast.api.limits.connections import Connections, is_loopback
from holdfast.api.limits.server_limits import ServerLimits
from holdfast.api.metrics import Metrics
from holdfast.api.request import check_content_type, decode, read_body, read_query
from holdfast.api.routes.table import ENDPOINTS
from holdfast.api.shapes.error_report import error_view
from holdfast.api.streams.event_stream import EventStream
from holdfast.api.streams.websocket import Sockets
from holdfast.audit.action import FOR_PROGRAMS, short
from holdfast.audit.actor import acting_as, record_refusal
from holdfast.console.error_page import error_page, is_console
from holdfast.console.table import PAGES
from holdfast.inbox.channel import Webhooks
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, RobotRefused
from holdfast.kernel.ports import Clock
from holdfast.runtime.runtime import Runtime

HEALTH, READY = "/healthz", "/readyz"
SUBJECT_CHARS_MAX = 80  # of a parameter of the path, in the audit trail


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The dependencies and limits of a server. `token` is the operator's token, which holds every scope."""

    token: str
    version: str
    body_bytes_max: int
    names: Names = field(default_factory=Names)
    limits: ServerLimits = field(default_factory=ServerLimits)
    clock: Clock | None = None  # None: the runtime's
    hooks: Webhooks | None = None  # None: the channels of the runtime
    wal_bytes: Callable[[], int | None] = lambda: None


@cache
def _document(version: str) -> bytes:
    return msgspec.json.encode(openapi.document(ENDPOINTS, version))


def make_app(runtime: Runtime, setup: Setup) -> "HttpApp":
    """Build the ASGI application of a runtime."""
    clock = setup.clock or runtime.clock
    logins = Logins(setup.token, runtime.db, clock, runtime.entropy)
    guard = Guard(Keyring(setup.token, runtime.db, clock), logins, clock, setup.names)
    metrics = Metrics(setup.version, setup.wal_bytes)
    runtime.ports.notifier.tap(metrics.hear)
    settings = Settings(
        body_bytes_max=setup.body_bytes_max,
        tasks=runtime.tasks,
        metrics=metrics,
        logins=logins,
        hooks=setup.hooks or runtime.channel_registry,
        document=partial(_document, setup.version),
        admission=Admission(setup.limits, clock, body_bytes_max=setup.body_bytes_max),
    )
    connections = Connections(setup.limits, guard.is_trusted, metrics.dropped)
    metrics.count_held(settings.admission.bodies, connections)
    return HttpApp(runtime, settings, guard, connections)


@dataclass(frozen=True, slots=True)
class _Handling:
    """The ASGI application of one route. It does not catch errors: `HttpApp` answers them."""

    _endpoint: Endpoint
    _runtime: Runtime
    _settings: Settings
    _guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with acting_as(self._guard.actor_of(scope)):
            response = await self._attempt(Request(scope, receive, send))
            if isinstance(response, EventStream) and not self._endpoint.is_open:
                response.ends_with(partial(self._guard.until_over, scope["caller"]))
            await response(scope, receive, send)

    async def _attempt(self, request: Request) -> Response:
        """Run the handler. A refused attempt at a privileged act is recorded before the client gets the error."""
        try:
            return await self._respond(request)
        except HoldfastError as error:
            if self._endpoint.act is not None and errors.is_refusal(error):
                # The parameters of the path are the subject. The body may contain a secret.
                subject = " ".join(short(str(value), SUBJECT_CHARS_MAX) for value in request.path_params.values())
                await record_refusal(self._runtime.db, self._endpoint.act, subject, error.code)
            raise

    async def _respond(self, request: Request) -> Response:
        endpoint, settings = self._endpoint, self._settings
        viewer = Viewer(self._runtime, None) if endpoint.is_open else self._viewer(request)
        if endpoint.body is not None:
            check_content_type(request)
        query = {} if endpoint.any_query else read_query(request, endpoint.query)
        call = HttpCall(request, settings, viewer, query)
        if endpoint.body is not None and endpoint.decodes:
            body = await read_body(request, endpoint.body_bytes_max or settings.body_bytes_max)
            call = replace(call, body=decode(body, endpoint.body))
        found = await endpoint.handler(call)
        request.scope["opened"].free()  # a stream can run for long and no longer needs the body
        return found if isinstance(found, Response) else answer(found, next(iter(endpoint.answers)))

    def _viewer(self, request: Request) -> Viewer:
        """The viewer of an authenticated caller. Raises the error of the first right that the caller lacks."""
        caller: Caller = request.scope["caller"]
        act = self._endpoint.act
        if isinstance(self._endpoint.scope, TokenScope):
            caller.require(self._endpoint.scope)
        if caller.token.robot and act is not None and act not in FOR_PROGRAMS:
            raise RobotRefused(f"{act.stored} is for people, and this token is a program's")
        self._guard.check_cookie_use(caller, request.scope)
        return viewer_for(self._runtime, self._settings.admission, caller, self._guard.client_of(request.scope))


def viewer_for(runtime: Runtime, admission: Admission, caller: Caller, client: str) -> Viewer:
    """The runtime as a caller at an address may use it. The operator may start any number of chats."""
    who = Requester.of(client, caller)
    return Viewer(runtime, caller.token, None if who.is_operator else partial(admission.admit_chat, who))


class HttpApp:
    def __init__(self, runtime: Runtime, settings: Settings, guard: Guard, connections: Connections) -> None:
        table = (*ENDPOINTS, openapi.get_document)
        routes = [Route(one.path, _Handling(one, runtime, settings, guard), methods=[one.method]) for one in table]
        self._router = Router(routes, redirect_slashes=False)
        pages = [Route(one.path, _Handling(one, runtime, settings, guard), methods=[one.method]) for one in PAGES]
        self._pages = Router(pages, redirect_slashes=False)
        self._sockets = Sockets(guard, settings, partial(viewer_for, runtime, settings.admission))
        self._guard = guard
        self._settings = settings
        public = [one.path for one in (*table, *PAGES) if one.is_open]
        self._public = frozenset(path for path in public if "{" not in path)
        self._public_under = tuple(path.partition("{")[0] for path in public if "{" in path)
        self.logins = settings.logins
        self.connections = connections

    def refused(self, error: HoldfastError) -> None:
        """Count an error that the server answered without calling the application."""
        self._settings.metrics.refused(error.code)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets.serve(scope, receive, send)
            return
        has_begun = False

        async def begin_to_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            who = await self._check(scope)
            scope["app"] = self  # makes the router raise errors instead of answering them in plain text
            with self._settings.admission.open(who) as opened:
                scope["opened"] = opened
                router = self._pages if is_console(scope["path"]) else self._router
                await router(scope, receive, begin_to_send)
        except (ClientDisconnect, errors.SlowReader):
            return  # the client is gone; accepted messages are durable, and anything else was not acknowledged
        except Exception as error:
            if has_begun:
                raise
            problem = _problem(error, scope)
            self._settings.metrics.refused(problem.code)
            extra = _allowed(self._router, scope) if isinstance(problem, errors.MethodNotAllowed) else {}
            if isinstance(problem, errors.LoginEnded):
                extra = {"Set-Cookie": clear_cookie(self._guard.cookie_name(scope))}
            if is_console(scope["path"]):
                response = error_page(problem, scope, extra)
            else:
                response = answer(
                    error_view(problem), errors.status_of(problem), {**errors.headers_of(problem), **extra}
                )
            await response(scope, receive, send)

    async def _check(self, scope: Scope) -> Requester:
        """Check the head of a request. Returns the requester; raises the error of the first failed check."""
        headers = scope["headers"]
        self._guard.check_host(headers)
        self._guard.check_query(scope["query_string"])
        scope["guard"] = self._guard
        client = self._guard.client_of(scope)
        if scope["path"] in self._public or scope["path"].startswith(self._public_under):
            is_check = scope["path"] == HEALTH and scope["method"] == "GET"
            return Requester.of(client, None, is_operator=is_check and is_loopback(client))
        caller = await self._guard.identify(scope)
        if caller is None:
            raise errors.AuthRequired("this route needs a bearer token")
        scope["caller"] = caller
        return Requester.of(client, caller, is_operator=scope["path"] == READY and is_loopback(client))


def _problem(error: Exception, scope: Scope) -> HoldfastError:
    """The error to answer with. An unexpected error is logged here, once, and answered without details."""
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            return errors.MethodNotAllowed(f"{scope['path'][:200]} does not take {scope['method']}")
        return errors.NotFound(f"there is no route {scope['path'][:200]}")
    if isinstance(error, HoldfastError) and errors.status_of(error) != 500:
        return error
    log.error("http.failed", failure=error, method=scope["method"])
    return errors.InternalError("the request failed; it is not known to have had an effect")


def _allowed(router: Router, scope: Scope) -> dict[str, str]:
    """The `Allow` header of a path; several routes may share the path."""
    there = [route for route in router.routes if isinstance(route, Route) and route.matches(scope)[0] is Match.PARTIAL]
    return {"Allow": ", ".join(sorted({method for route in there for method in route.methods or ()}))}
