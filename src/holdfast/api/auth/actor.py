"""The actor of an HTTP request for the audit trail: its token, and its origin."""

from typing import Any

from starlette.requests import Request

from holdfast.api.auth.caller import OPERATOR, Caller
from holdfast.api.auth.guard import Guard
from holdfast.api.errors import status_of
from holdfast.audit.action import ANONYMOUS, ActorKind, By, short
from holdfast.kernel.errors import HoldfastError

AGENT_CHARS_MAX = 60
SUBJECT_CHARS_MAX = 80
NOT_REFUSED = frozenset({408, 413, 429})  # the request was cut off or postponed before it was judged


def actor_of(scope: Any, guard: Guard) -> By:  # noqa: ANN401 - an ASGI scope
    """The caller of a request; ANONYMOUS if it has no valid token."""
    origin = f"http {guard.client_of(scope)} {_user_agent(scope)}".strip()
    caller = scope.get("caller")
    if not isinstance(caller, Caller):
        return By(kind=ANONYMOUS.kind, id=ANONYMOUS.id, origin=origin)
    return caller_as_actor(caller, origin)


def caller_as_actor(caller: Caller, origin: str) -> By:
    token = caller.token
    kind = ActorKind.OPERATOR if token.id == OPERATOR.id else ActorKind.TOKEN
    how = f"{origin}, with a cookie" if caller.cookie else origin
    return By(kind=kind, id=token.id, label="" if kind is ActorKind.OPERATOR else token.label, origin=how)


def is_refusal(error: HoldfastError) -> bool:
    """Whether an error refuses the attempt, in contrast to a failure or a request to retry."""
    status = status_of(error)
    return 400 <= status < 500 and status not in NOT_REFUSED


def subject_of(request: Request) -> str:
    """The parameters of the path. The body is not used: it may contain a secret."""
    return " ".join(short(str(value), SUBJECT_CHARS_MAX) for value in request.path_params.values())


def _user_agent(scope: Any) -> str:  # noqa: ANN401
    told = next((value for name, value in scope["headers"] if name == b"user-agent"), b"")
    return short(told.decode("latin-1"), AGENT_CHARS_MAX)
