"""The routes of login, logout and the caller's identity and of the chat page."""

import hashlib
import re
from base64 import b64encode
from functools import cache
from importlib.resources import files

from msgspec import Struct
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.guard import Guard
from holdfast.api.auth.login import LoginEnd, csrf_of
from holdfast.api.auth.logins import clear_cookie, set_cookie
from holdfast.api.auth.viewer import Viewer
from holdfast.api.endpoint import ANY, OPEN, PRIVATE, HttpCall, answer, route
from holdfast.api.shapes.view import Shape
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


@cache
def page() -> tuple[bytes, dict[str, str]]:
    """The page and its headers: only its own script and style run, and it loads nothing from other hosts."""
    page_text, script = (
        files("holdfast.api").joinpath(name).read_text("utf-8") for name in ("page.html", "markdown.js")
    )
    text = page_text.replace("/* markdown.js */", script)
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


@route("GET /", OPEN, media_type="text/html")
async def get_page(_call: HttpCall) -> Response:
    """A page to chat with the agents."""
    text, headers = page()
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)


@route(
    "POST /v1/login",
    OPEN,
    answers={200: Me},
    body=LoginWish,
    body_bytes_max=LOGIN_BYTES_MAX,
    act=Act.LOGIN,
    errors=(401, 403),
)
async def post_login(call: HttpCall) -> Response:
    """Exchange a one-time code or a token for a cookie."""
    wish, scope, logins = call.body, call.request.scope, call.settings.logins
    if (wish.code is None) == (wish.token is None):
        raise InvalidInput("say how to log in: either with a code or with a token")
    guard: Guard = scope["guard"]
    guard.check_origin(scope)
    client = guard.client_of(scope)
    by_token = await guard.by_secret(wish.token, client) if wish.token is not None else None
    caller = by_token or guard.by_code(wish.code or "", client)
    with acting_as(caller.as_actor(acting().origin)):
        cookie, lasts_ms = await logins.begin(caller.token, replaces=guard.cookie_of(scope))
    kept = set_cookie(guard.cookie_name(scope), cookie, lasts_ms)
    return answer(_me(call.viewer.logged_in(caller.token), cookie), 200, {"Set-Cookie": kept})


@route("POST /v1/logout", ANY, answers={200: LoggedOut}, act=Act.LOGOUT)
async def post_logout(call: HttpCall) -> Response:
    """End this browser's login, in every process and on every open connection."""
    guard: Guard = call.request.scope["guard"]
    await call.settings.logins.end(call.caller.cookie, LoginEnd.LOGOUT)
    return answer(LoggedOut(), 200, {"Set-Cookie": clear_cookie(guard.cookie_name(call.request.scope))})


@route("GET /v1/me", ANY)
async def get_me(call: HttpCall) -> Me:
    """Rights of the caller."""
    return _me(call.viewer, call.caller.cookie)


def _me(viewer: Viewer, cookie: str) -> Me:
    token = viewer.token
    return Me(
        token=token.id,
        label=token.label,
        scopes=sorted(scope.value for scope in Scope if token.may(scope)),
        agents=list(viewer.agents()),
        sender=token.binding.sender,
        chats=sorted(token.binding.chats),
        relay=token.may(Scope.SEND) and not token.binding.is_bound,
        csrf=csrf_of(cookie) if cookie else None,
    )
