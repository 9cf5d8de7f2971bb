"""The overview: what needs a person, and one row for each agent."""

from starlette.responses import RedirectResponse, Response

from holdfast.console.page import Asked, PageView, page
from holdfast.monitor.status import Need, NeedKind, headline

RANKS = {"needs you": "hot", "need you": "hot", "stuck": "bad"}
CALM = "Nothing needs you"


@page("/console")
async def get_overview(asked: Asked) -> PageView:
    """What needs a person, and how each agent does."""
    told = headline(asked.status, asked.needs)
    return PageView(
        "overview.html",
        "Overview",
        {"first": [(_rank(words), words) for words in told.first], "second": told.second, "links": _link},
    )


@page("/console/")
async def get_overview_again(_asked: Asked) -> PageView | Response:
    """The overview under the address with a slash."""
    return RedirectResponse("/console", 308)


def _rank(words: str) -> str:
    if words == CALM:
        return ""
    return next((rank for ending, rank in RANKS.items() if words.endswith(ending)), "quiet")


def _link(need: Need) -> tuple[str, str] | None:
    """Where a person acts on a need: the words of the link and its address."""
    if need.kind is NeedKind.TURN:
        return "Trace", f"/console/trace/{need.subject}"
    return None
