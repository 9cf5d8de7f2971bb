"""The ASGI application: guard, route, answer. Whatever happens, the answer is JSON of one shape."""

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast import log
from holdfast.channels.http import openapi
from holdfast.channels.http.errors import InternalError, MethodNotAllowed, NotFound, headers_of, status_of
from holdfast.channels.http.guard import Guard
from holdfast.channels.http.routes import ENDPOINTS, Endpoint, Settings, answer
from holdfast.core.errors import HoldfastError, InvariantBroken
from holdfast.ports.clock import Clock
from holdfast.ports.service import Service
from holdfast.ports.surface import error_view


def make_app(service: Service, *, token: str, clock: Clock, version: str, body_bytes_max: int) -> "HttpApp":
    settings = Settings(service, body_bytes_max)
    document = answer(openapi.document(ENDPOINTS, version)).body

    async def get_document(_request: Request) -> Response:
        return Response(document, media_type="application/json")

    routes = [Route(openapi.PATH, get_document, methods=["GET"])]
    routes += [_route(one, settings) for one in ENDPOINTS]
    public = frozenset(one.path for one in ENDPOINTS if one.is_open)
    return HttpApp(Router(routes, redirect_slashes=False), Guard(token, clock), public)


def _route(endpoint: Endpoint, settings: Settings) -> Route:
    async def handle(request: Request) -> Response:
        return await endpoint.handler(request, settings)

    return Route(endpoint.path, handle, methods=[endpoint.method])


class HttpApp:
    def __init__(self, router: ASGIApp, guard: Guard, public: frozenset[str]) -> None:
        self._router = router
        self._guard = guard
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise InvariantBroken(f"a {scope['type']} connection, which the server was told not to take")
        sending = _Sending(send)
        try:
            self._check(scope)
            scope["app"] = self  # the router raises what is wrong instead of answering in plain text
            await self._router(scope, receive, sending)
        except ClientDisconnect:
            return  # nobody is left to answer; what was accepted before is durable, the rest was not acknowledged
        except Exception as error:
            if sending.started:
                raise
            problem = _problem(error, scope)
            response = answer(error_view(problem), status_of(problem), {**headers_of(problem), **_extra(error)})
            await response(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        self._guard.check_host(scope["headers"])
        self._guard.check_query(scope["query_string"])
        if scope["path"] not in self._public:
            client = scope.get("client")
            self._guard.check_token(scope["headers"], client[0] if client else "")


class _Sending:
    """Remembers whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


def _problem(error: Exception, scope: Scope) -> HoldfastError:
    """The error in our words. What we did not foresee is logged once, here, and told without details."""
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            return MethodNotAllowed(f"{scope['path'][:200]} does not take {scope['method']}")
        return NotFound(f"there is no route {scope['path'][:200]}")
    if isinstance(error, HoldfastError) and status_of(error) != 500:
        return error
    log.error("http.failed", failure=error, method=scope["method"])
    return InternalError("the request failed; it is not known to have had an effect")


def _extra(error: Exception) -> dict[str, str]:
    return dict(error.headers or {}) if isinstance(error, HTTPException) else {}
