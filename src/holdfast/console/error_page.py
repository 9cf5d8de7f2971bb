"""Errors and the login as pages, under the address that was asked for: a link leads there after the login."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from holdfast.api.errors import headers_of, status_of
from holdfast.console.page import PART, frame, html
from holdfast.kernel.errors import HoldfastError

PREFIX = "/console"


def is_console(path: str) -> bool:
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def error_page(problem: HoldfastError, scope: Any, extra: Mapping[str, str]) -> Response:  # noqa: ANN401 - ASGI
    status = status_of(problem)
    part = next((value.decode("latin-1") for name, value in scope["headers"] if name == PART.encode()), "")
    headers = {**headers_of(problem), **extra}
    title = "Log in" if status == 401 else "Not shown"
    values = {**frame(scope["path"], part=part, title=title), "problem": problem, "http_status": status}
    return html("login.html" if status == 401 and not part else "error.html", values, status, headers)
