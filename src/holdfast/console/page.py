"""A page as an endpoint: who may see it, what it reads, and how it is answered.

The script asks for a page in part: `live` is the menu and the content without the frame, `dialog` the content of a
dialog. Both are the same handler and the same template with another layout.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.login import csrf_of
from holdfast.api.endpoint import PRIVATE, Endpoint, HttpCall, Param
from holdfast.console.navigation import MENU
from holdfast.console.rendering import render
from holdfast.kernel.ids import Instant
from holdfast.monitor.component_needs import component_needs
from holdfast.monitor.status import Need, StoreStatus, ordered
from holdfast.monitor.status_sql import read_status
from holdfast.runtime.runtime import Runtime
from holdfast.store.script import Call

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    **PRIVATE,
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
HTML = "text/html"
PART = "x-holdfast-part"
LAYOUTS = {"": "layout.html", "live": "live.html", "dialog": "dialog.html"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page by a caller who may read everything."""

    call: HttpCall
    runtime: Runtime
    status: StoreStatus
    needs: Sequence[Need]  # of the store and of the connections, in the order in which a person should look

    @property
    def query(self) -> Mapping[str, Any]:
        return self.call.query

    def address(self, **changed: str) -> str:
        """The address of this page with some parameters changed; empty ones are left out."""
        kept = {name: value for name, value in {**self.query, **changed}.items() if value}
        return f"{self.call.request.url.path}{f'?{urlencode(kept)}' if kept else ''}"

    async def read(self, call: Call[T]) -> T:
        return await self.runtime.db.read(call)

    def may(self, scope: Scope) -> bool:
        """Whether the caller may act so; a robot decides nothing."""
        token = self.call.caller.token
        return token.may(scope) and not token.robot


@dataclass(frozen=True, slots=True)
class PageView:
    """A template and its values."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


Handler = Callable[[Asked], Awaitable[PageView | Response]]


def page(
    path: str, *, query: Mapping[str, str | Param] | None = None, scope: Scope = Scope.READ
) -> Callable[[Handler], Endpoint]:
    """Make a page of a handler. It needs the scope, for all agents and all chats."""

    def make(handler: Handler) -> Endpoint:
        async def answer(call: HttpCall) -> Response:
            asked = await _asked(call)
            shown = await handler(asked)
            return shown if isinstance(shown, Response) else _answer(asked, shown)

        summary = " ".join((handler.__doc__ or "").split()).removesuffix(".")
        return Endpoint(
            method="GET",
            path=path,
            scope=scope,
            handler=answer,
            summary=summary,
            answers={200: None},
            query=query or {},
            media_type=HTML,
        )

    return make


async def _asked(call: HttpCall) -> Asked:
    runtime = call.viewer.whole("the console")
    status = await runtime.db.read(read_status())
    more = component_needs(runtime.components())
    return Asked(call, runtime, status, ordered((*status.needs, *more)))


def _answer(asked: Asked, shown: PageView) -> Response:
    part = asked.call.request.headers.get(PART, "")
    return html(
        shown.template,
        {
            **frame(asked.call.request.url.path, part=part, title=shown.title),
            **signed_in(asked.call),
            "at": asked.status.at,
            "status": asked.status,
            "needs": asked.needs,
            "menu_counts": menu_counts(asked.status, asked.needs),
            "may_operate": asked.may(Scope.OPERATE),
            **shown.values,
        },
        shown.status,
    )


def html(
    template: str, values: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return HTMLResponse(render(template, values), status, {**HEADERS, **(headers or {})})


def frame(path: str, *, part: str, title: str) -> dict[str, Any]:
    """What every layout needs, also of a page for a caller without a login."""
    return {
        "layout": LAYOUTS.get(part, LAYOUTS[""]),
        "title": title,
        "path": path,
        "menu": MENU,
        "menu_counts": {},
        "csrf": "",
        "label": "",
        "at": None,
        "status": None,
    }


def signed_in(call: HttpCall) -> dict[str, Any]:
    """Who is asking, and the token that the script sends with acts."""
    caller = call.caller
    return {
        "csrf": csrf_of(caller.cookie) if caller.cookie else "",
        "label": caller.token.label or caller.token.id,
        "has_cookie": bool(caller.cookie),
    }


def menu_counts(status: StoreStatus, needs: Sequence[Need]) -> dict[str, Any]:
    entries = [entry for group in MENU for entry in group.entries]
    return {entry.path: entry.count(status, needs) for entry in entries if entry.count is not None}


def since(status: StoreStatus, at: Instant | None) -> int:
    """How long ago an instant was, by the store's clock."""
    return 0 if at is None else max(0, status.at - at)
