"""One route as a value: what it takes, what it answers, who may ask. The server and the document are made from these.

A handler reads the request, asks the service one thing and returns a response; what is wrong is raised. A handler that
streams returns an `EventStream` (stream.py). Whatever belongs to an agent that the caller may not see is hidden by the
service itself (fence.py), so a handler need not think of it.
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
OPEN: Literal["open"] = "open"  # no token at all
ANY: Literal["any"] = "any"  # any valid token, whatever its scopes
Need: TypeAlias = Scope | Literal["open", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the handlers work with."""

    service: Runtime
    body_bytes_max: int
    tasks: Tasks
    metrics: Metrics
    logins: Logins
    hooks: Webhooks
    admission: Admission
    turnstile: KeyedLock = field(default_factory=KeyedLock)


Handler: TypeAlias = Callable[[Request, Settings], Awaitable[Response]]


# Schemas that say what inbox/address.py checks.
PRINTABLE = "^[^\\u0000-\\u001f\\u007f]*$"
PART: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": PART_CHARS_MAX, "pattern": PRINTABLE}
NAME: Mapping[str, Any] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
NAMES = frozenset({"agent", "channel"})


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a query. Its JSON schema is told in the document and kept to by `Query`."""

    what: str
    schema: Mapping[str, Any] = field(default_factory=dict)  # that of a name or an id, unless said
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, type[msgspec.Struct] | None]
    scope: Need = Scope.ADMIN  # whoever forgets to say gets the strictest
    body: type[msgspec.Struct] | None = None
    query: Mapping[str, str | Param] = field(default_factory=dict)
    path_schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of parameters that are no plain names
    errors: tuple[int, ...] = ()
    media_type: str = JSON  # of a good answer
    also: str | None = None  # a second media type that a client may ask for with Accept
    takes: str = JSON  # the media type of the body
    act: Act | None = None  # the privileged act that it is for: a refused attempt is put on record under this name

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
    assert isinstance(found, Caller)  # noqa: S101 - the app puts it there before any handler runs
    return found
