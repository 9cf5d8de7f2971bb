"""The routes of login, logout and the caller's identity, of the chat page, and of the metrics."""

import hashlib
import re
from base64 import b64encode
from functools import cache
from importlib.resources import files

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.auth.actor import caller_as_actor
from holdfast.api.auth.caller import Caller
from holdfast.api.auth.cookie import clear_cookie, set_cookie
from holdfast.api.auth.guard import Guard
from holdfast.api.auth.login import LoginEnd
from holdfast.api.endpoint import ANY, JSON, OPEN, PRIVATE, Endpoint, Settings, answer, caller_of
from holdfast.api.metrics import MEDIA_TYPE, Present
from holdfast.api.request import QueryParameters, decode, read_body
from holdfast.api.shapes.shapes import Shape
from holdfast.audit.action import Act
from holdfast.audit.actor import acting, acting_as
from holdfast.kernel.errors import InvalidInput

LOGIN_BYTES_MAX = 4_096


class LoginWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either the one-time code that `holdfast up` printed, or a token."""

    code: str | None = None
    token: str | None = None


class Me(Shape, frozen=True, kw_only=True):
    """The rights of the caller. The header X-Holdfast-CSRF of a request that changes data carries `csrf`."""

    token: str
    label: str
    scopes: list[str]
    agents: list[str]
    sender: str | None  # the sender that the token is bound to
    chats: list[str]  # the chats that the token names; a sender also has the chat of its own name and those below it
    relay: bool  # whether the token may name any sender and any chat
    csrf: str | None


class LoggedOut(Shape, frozen=True, kw_only=True):
    ok: bool = True


async def post_login(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    wish = decode(await read_body(request, LOGIN_BYTES_MAX), LoginWish)
    if (wish.code is None) == (wish.token is None):
        raise InvalidInput("say how to log in: either with a code or with a token")
    guard: Guard = request.scope["guard"]
    guard.check_origin(request.scope)
    client = guard.client_of(request.scope)
    by_token = await guard.by_secret(wish.token, client) if wish.token is not None else None
    token = (by_token or guard.by_code(wish.code or "", client)).token
    with acting_as(caller_as_actor(Caller(token), acting().origin)):
        cookie, lasts_ms = await settings.logins.begin(token, replaces=guard.cookie_of(request.scope))
    kept = set_cookie(guard.cookie_name(request.scope), cookie, lasts_ms)
    return answer(_me(token, settings, cookie), 200, {"Set-Cookie": kept})


async def post_logout(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    guard: Guard = request.scope["guard"]
    await settings.logins.end(caller_of(request).cookie, LoginEnd.LOGOUT)
    return answer(LoggedOut(), 200, {"Set-Cookie": clear_cookie(guard.cookie_name(request.scope))})


async def get_me(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    caller = caller_of(request)
    return answer(_me(caller.token, settings, caller.cookie))


def _me(token: AccessToken, settings: Settings, cookie: str) -> Me:
    return Me(
        token=token.id,
        label=token.label,
        scopes=sorted(scope.value for scope in Scope if token.may(scope)),
        agents=sorted(token.agents) or list(settings.service.agents()),
        sender=token.binding.sender,
        chats=sorted(token.binding.chats),
        relay=token.may(Scope.SEND) and not token.binding.is_bound,
        csrf=settings.logins.csrf(cookie) if cookie else None,
    )


async def get_metrics(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    present = Present(await settings.service.gauges(), await settings.service.health())
    return Response(settings.metrics.render(present), media_type=MEDIA_TYPE, headers=PRIVATE)


# --- the page --------------------------------------------------------------------------------------


@cache
def page() -> tuple[bytes, dict[str, str]]:
    """The page and its headers: only its own script and style run, and it loads nothing from other hosts."""
    text = files("holdfast.api").joinpath("page.html").read_text(encoding="utf-8")
    sources = {
        kind: " ".join(_hash(block) for block in re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL))
        for kind in ("script", "style")
    }
    policy = (
        f"default-src 'none'; script-src {sources['script']}; style-src {sources['style']}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        **PRIVATE,
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
    }
    return text.encode(), headers


def _hash(block: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(block.encode()).digest()).decode()}'"


async def get_page(request: Request, _settings: Settings) -> Response:
    QueryParameters(request, ())
    text, headers = page()
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/",
        handler=get_page,
        scope=OPEN,
        summary="A page to chat with the agents",
        answers={200: None},
        media_type="text/html",
    ),
    Endpoint(
        method="POST",
        path="/v1/login",
        act=Act.LOGIN,
        handler=post_login,
        scope=OPEN,
        summary="Exchange a one-time code or a token for a cookie",
        body=LoginWish,
        answers={200: Me},
        errors=(401, 403, 408, 413, 429),
    ),
    Endpoint(
        method="POST",
        path="/v1/logout",
        act=Act.LOGOUT,
        handler=post_logout,
        scope=ANY,
        summary="End this browser's login, in every process and on every open connection",
        answers={200: LoggedOut},
        takes=JSON,
    ),
    Endpoint(method="GET", path="/v1/me", handler=get_me, scope=ANY, summary="Rights of the caller", answers={200: Me}),
    Endpoint(
        method="GET",
        path="/metrics",
        handler=get_metrics,
        scope=Scope.READ,
        summary="Prometheus metrics",
        answers={200: None},
        media_type="text/plain",
        errors=(503,),
    ),
)
