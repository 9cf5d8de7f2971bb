"""One route as a value: its parameters, its answers and the scope it needs. The router and the OpenAPI document use it.

A handler reads the request, calls the service once and returns a response; it raises its errors. A streaming handler
returns an `EventStream` (streams/event_stream.py). The service hides data of agents that the caller may not see
(auth/scoped_service.py), so handlers do not check for it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.caller import Caller
from holdfast.api.auth.logins import Logins
from holdfast.api.limits.admission import Admission
from holdfast.api.metrics import Metrics
from holdfast.audit.action import Act
from holdfast.inbox.address import PART_CHARS_MAX
from holdfast.inbox.channel import Webhooks
from holdfast.kernel.keyed_lock import KeyedLock
from holdfast.kernel.tasks import Tasks
from holdfast.runtime.runtime import Runtime

PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
JSON = "application/json"
EVENTS = "text/event-stream"
OPEN: Literal["open"] = "open"  # no token
ANY: Literal["any"] = "any"  # any valid token, with any scope
Need: TypeAlias = Scope | Literal["open", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The dependencies and limits that handlers use."""

    service: Runtime
    body_bytes_max: int
    tasks: Tasks
    metrics: Metrics
    logins: Logins
    hooks: Webhooks
    admission: Admission
    request_lock: KeyedLock = field(default_factory=KeyedLock)


Handler: TypeAlias = Callable[[Request, Settings], Awaitable[Response]]


# Schemas that describe the checks of inbox/address.py.
PRINTABLE = "^[^\\u0000-\\u001f\\u007f]*$"
PART: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": PART_CHARS_MAX, "pattern": PRINTABLE}
NAME: Mapping[str, Any] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
NAMES = frozenset({"agent", "channel"})


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter. The OpenAPI document shows its JSON schema, and `QueryParameters` enforces it."""

    what: str
    schema: Mapping[str, Any] = field(default_factory=dict)  # empty: the schema of a name or an id
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, type[msgspec.Struct] | None]
    scope: Need = Scope.ADMIN  # the default is the strictest scope
    body: type[msgspec.Struct] | None = None
    query: Mapping[str, str | Param] = field(default_factory=dict)
    path_schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of parameters that are not plain ids
    errors: tuple[int, ...] = ()
    media_type: str = JSON  # of a successful response
    also: str | None = None  # a second media type that a client can request with Accept
    takes: str = JSON  # the media type of the body
    act: Act | None = None  # the privileged act of this endpoint; a refused attempt is recorded under its name

    @property
    def is_open(self) -> bool:
        return self.scope == OPEN


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        headers={**PRIVATE, **(headers or {})},
        media_type=JSON,
    )


def caller_of(request: Request) -> Caller:
    found = request.scope["caller"]
    assert isinstance(found, Caller)  # noqa: S101 - the app sets the caller before any handler runs
    return found
