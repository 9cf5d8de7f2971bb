"""One route as a value: its parameters, its answers and the scope it needs. The router and the OpenAPI document use it.

`route` makes an endpoint of a handler. A handler gets a `HttpCall`, whose parameters and body are decoded, and asks its
viewer, which hides what the caller may not see (auth/viewer.py). It returns a shape, or a response with a status or
headers of its own; it raises its errors. A streaming handler returns an `EventStream` (streams/event_stream.py).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.caller import Caller
from holdfast.api.auth.logins import Logins
from holdfast.api.auth.viewer import Viewer
from holdfast.api.limits.admission import Admission
from holdfast.api.metrics import Metrics
from holdfast.audit.action import Act
from holdfast.inbox.address import PART_CHARS_MAX, check_part
from holdfast.inbox.channel import Webhooks
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.loop import KeyedLock
from holdfast.kernel.ports import Tasks

PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
JSON = "application/json"
EVENTS = "text/event-stream"
OPEN: Literal["open"] = "open"  # no token
ANY: Literal["any"] = "any"  # any valid token, with any scope
Need: TypeAlias = Scope | Literal["open", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The dependencies and limits that handlers use."""

    body_bytes_max: int
    tasks: Tasks
    metrics: Metrics
    logins: Logins
    hooks: Webhooks
    admission: Admission
    document: Callable[[], bytes]  # makes the OpenAPI document with its first use
    request_lock: KeyedLock = field(default_factory=KeyedLock)


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One request: its parameters and body, and the viewer of its token."""

    request: Request
    settings: Settings
    viewer: Viewer
    query: Mapping[str, Any]  # every parameter of the endpoint
    body: Any = None  # decoded as the endpoint's `body`

    @property
    def caller(self) -> Caller:
        found = self.request.scope["caller"]
        assert isinstance(found, Caller)  # noqa: S101 - the app sets the caller before any handler runs
        return found

    def id(self, name: str) -> str:
        """An id in the path."""
        return check_part(name, self.request.path_params[name])


Handler: TypeAlias = Callable[[HttpCall], Awaitable[object]]  # a response, or a shape for one


# Schemas that describe the checks of inbox/address.py.
PRINTABLE = "^[^\\u0000-\\u001f\\u007f]*$"
PART: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": PART_CHARS_MAX, "pattern": PRINTABLE}
NAME: Mapping[str, Any] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
NAMES = frozenset({"agent", "channel"})
NUMBER: Mapping[str, Any] = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter. The OpenAPI document shows its JSON schema, and `read_query` enforces it."""

    what: str
    schema: Mapping[str, Any] = field(default_factory=dict)  # empty: the schema of a name or an id
    required: bool = False
    default: object = None  # the value of a parameter that is missing or empty
    most: int | None = None  # a number above it becomes it
    parse: Callable[[Any], object] | None = None  # of the value or the default


def state_param(what: str, states: type[Enum], named: str) -> Param:
    """A filter by state. `named` has `{}` for the state that `InvalidInput` repeats if there is no such state."""
    known = [state.value for state in states]

    def parse(text: str | None) -> str | None:
        if text is not None and text not in known:
            told = named.format(repr(text[:40]))
            raise InvalidInput(f"there is no {told}; there are {', '.join(known)}", state=text[:40])
        return text

    return Param(what, {"type": "string", "enum": known}, parse=parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, type | None]  # by status; the first is that of a shape the handler returns
    scope: Need = Scope.ADMIN  # the default is the strictest scope
    body: type[msgspec.Struct] | None = None
    body_bytes_max: int | None = None  # the server's limit unless set
    decodes: bool = True  # False: the handler reads the body itself
    query: Mapping[str, str | Param] = field(default_factory=dict)
    any_query: bool = False  # the query is not read
    path_schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of parameters that are not plain ids
    errors: tuple[int, ...] = ()  # beyond those of its kind: a parameter of the path may name nothing
    media_type: str = JSON  # of a successful response
    also: str | None = None  # a second media type that a client can request with Accept
    act: Act | None = None  # the privileged act of this endpoint; a refused attempt is recorded under its name

    @property
    def is_open(self) -> bool:
        return self.scope == OPEN


def route(
    at: str,
    scope: Need,
    *,
    status: int = 200,
    answers: Mapping[int, type | None] | None = None,
    **more: Any,  # noqa: ANN401 - the other fields of an endpoint
) -> Callable[[Handler], Endpoint]:
    """Make an endpoint of a handler, such as `GET /v1/sessions`.

    The handler's docstring is the summary. The shape that it returns is the answer, with `status`; a handler that
    returns a response states its shapes in `answers`.
    """
    method, _, path = at.partition(" ")

    def make(handler: Handler) -> Endpoint:
        summary = " ".join((handler.__doc__ or "").split()).removesuffix(".")
        shape = get_type_hints(handler)["return"]
        said = answers or {status: None if shape is Response else shape}
        return Endpoint(method=method, path=path, scope=scope, handler=handler, summary=summary, answers=said, **more)

    return make


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        headers={**PRIVATE, **(headers or {})},
        media_type=JSON,
    )
